"""The paper's scheme on plain tensors: scores, selection, extract and soft-extract (torch only)."""
