"""Synthetic experiments and frames, for all suites of the analysis."""

from __future__ import annotations

from analysis_fixtures import make_experiment, make_frames, make_probe

__all__ = ["make_experiment", "make_frames", "make_probe"]
