"""Runs on this machine, in worker processes forked from one warm server."""

from plat.dispatch.local.sweeping import RunEnd, SweepReport, sweep

__all__ = ["RunEnd", "SweepReport", "sweep"]
