"""`cluster.gpus`: how many GPUs a run gets in place of what its trainer states, or which share of one GPU."""

from __future__ import annotations

import math

from plat.errors import SpecError
from plat.spec.reading.yaml_scalar import option_scalar

PARTS = 10_000  # of a GPU; a share is a whole number of them, as in Ray


def gpus_per_run(text: str, where: str) -> float:
    """Return a whole number of GPUs, or the share of one: "2" -> 2, "0.25" -> 0.25. 0 means: what the trainer states.

    A share is rounded down to a whole number of parts, so that three runs of 0.33333333 fit. Raises SpecError, with
    the place `where`, for any other text.
    """
    value = option_scalar(text, where)
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
        parts = math.floor(value * PARTS + 1e-6)  # 0.57 * PARTS is 5699.999...
        if value == int(value):
            return int(value)
        if 0 < parts < PARTS:
            return parts / PARTS
    raise SpecError(
        f"gpus must be a whole number of GPUs, or a share of one GPU such as 0.25, not {value!r}",
        where=where,
        fix="cluster.gpus=2 gives each run two GPUs; with cluster.gpus=0.5 two runs share one",
    )
