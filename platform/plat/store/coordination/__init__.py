"""Coordinate commands on one home: live sweeps, submissions, trials, preparations."""
