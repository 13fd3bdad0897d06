"""Expand a matrix into runs with names."""
