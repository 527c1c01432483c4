"""Files of any size: rows in, answers beside them out, resumable, on one machine or on Ray."""
