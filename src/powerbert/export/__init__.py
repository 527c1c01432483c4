"""A model as a graph with free batch and length, in fp32 or int8, and the folder that holds it."""
