"""How a run is called: its named groups, the axes in which it differs from the other runs of its file, seed and id.

    sokoban-grpo-qwen2.5-3b-top_p-value0.9-s0-1a2b3c4d

The id alone identifies a run, and every verb finds a run by the end of its name. The readable part depends on the file
that asked first, because that decides which axes are worth showing; it is stored with the run and stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any

from plat.spec.identity import NAME_LIMIT, readable

LONGEST_NUMBER = 10  # characters; a longer one, as a search draws it, is shown with four digits


def run_name(label: str, axes: Iterable[tuple[str, Any]], seed: Any, identifier: str) -> str:
    """The name of a run.

    label  the readable names of its config groups, or of its trainer
    axes   (axis, label) of what distinguishes it from others; what `label` says already is not said again, and what
           would make the name longer than NAME_LIMIT is left out
    seed   None for a config without one
    """
    text = label
    for axis, value in sorted(axes, key=lambda pair: pair[0]):
        part = _part(axis, value)
        if axis != "seed" and part and f"-{part}-" not in f"-{text}-" and len(text) + len(part) < NAME_LIMIT:
            text = f"{text}-{part}"
    ending = f"-s{seed}-" if seed is not None else "-"
    return text + ending + identifier[:8]


@lru_cache(maxsize=4096, typed=True)
def _part(axis: str, value: Any) -> str:
    """`value0.9` of filter.value=0.9, `norm_by_std-false` of a switch, and the label alone of a named bundle."""
    key = axis.rpartition(".")[2]
    if key == "seed":  # the seed of something else, such as the base model's
        key = ".".join(axis.split(".")[-2:])
    if isinstance(value, bool) or value is None:
        return readable([key, str(value).lower() if value is not None else "null"])
    if isinstance(value, float) and len(str(value)) > LONGEST_NUMBER:
        return readable([f"{key}{value:.4g}"])
    if isinstance(value, int | float):
        return readable([f"{key}{value}"])
    return readable([key, value] if "." in axis else [str(value)])
