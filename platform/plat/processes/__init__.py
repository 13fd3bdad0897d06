"""Processes, their marks, signals, cores and locks: one helper for each."""
