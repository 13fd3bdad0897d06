"""What the paper says an artifact shows, as checks with a verdict."""

from plat_analysis.claims.engine import Verdict, check_claims

__all__ = ["Verdict", "check_claims"]
