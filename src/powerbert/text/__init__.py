"""Text to tokens to batches of like length, and back to answers in order; one of each."""
