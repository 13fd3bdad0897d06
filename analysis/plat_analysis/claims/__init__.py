"""Checks of what a paper claims, each with a verdict."""

from plat_analysis.claims.engine import Verdict, check_claims

__all__ = ["Verdict", "check_claims"]
