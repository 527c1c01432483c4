"""From a classifier and a goal to the fastest classifier that keeps it, with the evidence."""
