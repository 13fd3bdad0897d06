"""Find the nearest valid name, for messages about misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher, get_close_matches

ALSO_CALLED = {"gpu": "cuda", "fp32": "float32", "fp16": "float16", "bf16": "bfloat16", "fp64": "float64"}
SHOWN = 12  # valid names listed when none is near
LIKE = 0.6  # least similarity (0 to 1) of the last parts of two dotted names of one section


def nearest(name: str, valid: Iterable[str], cutoff: float = 0.6) -> str | None:
    """Return the valid name most like `name`, or None if none is near; the same last dotted part counts most."""
    names = list(valid)
    if ALSO_CALLED.get(name.lower()) in names:
        return ALSO_CALLED[name.lower()]
    last = name.rpartition(".")[2]
    same_end = [candidate for candidate in names if candidate.rpartition(".")[2] == last]
    if same_end:
        return (get_close_matches(name, same_end, 1, 0.0) or same_end)[0]
    lowered = {candidate.lower(): candidate for candidate in names}
    for match in get_close_matches(name.lower(), lowered, 5, cutoff):
        if _are_alike(name.lower(), match):
            return lowered[match]
    ends = {candidate.rpartition(".")[2].lower(): candidate for candidate in reversed(names)}
    matches = get_close_matches(last.lower(), ends, 1, max(cutoff, 0.75))
    return ends[matches[0]] if matches else None


def _are_alike(name: str, other: str) -> bool:
    """Return True if more than the section is alike: `train.epochs` is like neither `train.prompts` nor `train`."""
    (section, _, last), (other_section, _, other_last) = name.rpartition("."), other.rpartition(".")
    if not section or section != other_section:
        return other != section
    return last in other_last or other_last in last or SequenceMatcher(None, last, other_last).ratio() >= LIKE


def suggest(name: object, valid: Iterable[str], kind: str = "valid names") -> str:
    """Return a line for SpecError.fix: `did you mean 'x'?`, and the valid names if they are few.

    Without a near name, only the names of the same section are listed, if it has any.
    """
    names = list(dict.fromkeys(valid))
    near = nearest(str(name), names) if names else None
    section = str(name).rpartition(".")[0] + "."
    if near is None:
        names = [other for other in names if other.startswith(section)] or names
    listed = ", ".join(names[:SHOWN]) + (f", ... ({len(names)} in all)" if len(names) > SHOWN else "")
    if near is not None:
        return f"did you mean {near!r}?" + (f" ({kind}: {listed})" if len(names) <= SHOWN else "")
    return f"{kind}: {listed}" if names else f"there are no {kind}"
