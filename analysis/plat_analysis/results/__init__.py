"""What the runs of an experiment gave: runs, scores, curves, paired comparisons, and the paper's own numbers."""
