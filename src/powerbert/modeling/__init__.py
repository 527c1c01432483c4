"""The scheme inside a Hugging Face encoder."""
