"""A classifier over HTTP: batches of like length formed while the engine is busy, behind routes that clients know."""
