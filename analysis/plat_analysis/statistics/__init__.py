"""Intervals, tests, power and error control. Pure functions of arrays that know nothing of runs or files."""
