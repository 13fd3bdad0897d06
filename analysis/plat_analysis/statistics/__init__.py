"""Intervals, error control over many cells, and power. Pure functions of arrays that know nothing of runs."""
