"""The contract of a check of `plat doctor` (entry-point group `plat.doctor`): a function that returns a Finding."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One line of `plat doctor`."""

    level: str  # ok | warning | error
    says: str
    fix: str = ""
