"""What this machine can do: tried in child processes, measured, described."""
