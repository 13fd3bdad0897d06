"""Import runs of other tools: read them, choose axes, seeds and metrics, and write an experiment of recorded runs."""
