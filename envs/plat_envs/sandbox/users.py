"""A user for programs that root runs: one whom nobody else is."""

from __future__ import annotations

import random
from pathlib import Path

FIRST, NUMBER = 1 << 30, 1 << 30  # far from all real users
ORDINARY = 1 << 15  # a container has often no more than 65,536 users; real ones have low numbers, nobody the highest


def one_of_its_own() -> int | None:
    """Return a random number of a user and a group that exist here; None if root is the only user."""
    users = min(_known(Path("/proc/self/uid_map")), _known(Path("/proc/self/gid_map")))
    if users >= FIRST + NUMBER:
        return FIRST + random.SystemRandom().randrange(NUMBER)
    if users >= 2 * ORDINARY:
        return ORDINARY + random.SystemRandom().randrange(ORDINARY - 1000)
    return None


def _known(path: Path) -> int:
    """Return how many numbers from 0 on are known without a gap."""
    known = 0
    for first, _, length in sorted(tuple(map(int, line.split())) for line in path.read_text().splitlines()):
        if first > known:
            break
        known = max(known, first + length)
    return known
