"""Simulated runs, through the functions that decide real ones: one module for each kind of promise."""
