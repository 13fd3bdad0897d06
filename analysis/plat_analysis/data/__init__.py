"""The runs of an experiment with what the store knows of them, and what the paper printed."""
