"""The honest benchmark: arms interleaved in one run, against the best unpruned one."""
