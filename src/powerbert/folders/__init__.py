"""Folders: safe reading, atomic writing, digest, manifest, lock; one of each."""
