"""Simulate runs and judge them with the functions that judge real ones: one module for each kind of promise."""
