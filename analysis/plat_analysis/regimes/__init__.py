"""Whether a run lost its input dependence: the probes, the decision, and the table and figure that show both."""
