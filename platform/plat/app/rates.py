"""Read what the user pays for machines and electricity from the profile that a command names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from plat.app.loading import split
from plat.errors import SpecError

if TYPE_CHECKING:
    from plat.words.usage import Rates

PROFILES = "slurm"  # the dispatcher that has profiles; their rates hold for runs of any other


def rates_of(arguments: Sequence[str] | None) -> Rates | None:
    """Return `cost` of the profile `cluster=NAME`, or of `cluster.cost={...}`; None without them.

    Raises SpecError if there is no such profile, or a value is wrong.
    """
    for text in arguments or ():
        if text.startswith("cluster.cost."):
            key, _, value = text.removeprefix("cluster.cost.").partition("=")
            fix = f"cluster.cost={{{key}: {value}}}"
            raise SpecError("cluster.cost takes all rates together", where=f"the command line ({text})", fix=fix)
    given = [text for text in arguments or () if text.startswith(("cluster=", "cluster.cost="))]
    if not given:
        return None
    from plat.dispatch.registry import find_dispatcher, located

    return find_dispatcher(PROFILES).rates(located(PROFILES, given, split(arguments)[0]))
