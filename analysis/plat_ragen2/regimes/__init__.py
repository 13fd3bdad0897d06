"""Decide if a run lost its input dependence: the probes, the rule, and the tables and figures that show both."""
