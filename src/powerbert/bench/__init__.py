"""The honest benchmark: arms interleaved in one run, against the best of the full model."""
