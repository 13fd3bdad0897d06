"""The runs of an experiment with their results in the store, and the paper's printed numbers."""
