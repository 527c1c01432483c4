"""Tasks: columns, labels, metric, N and readers, for the paper's eleven and the user's own files."""
