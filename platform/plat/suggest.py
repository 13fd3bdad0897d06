"""The nearest valid name, for messages about misspelt ones."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

SHOWN = 12  # valid names listed when none is near


def nearest(name: str, valid: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The valid name most like `name`, those with the same last dotted part first; None if none is near."""
    names = list(valid)
    last = name.rpartition(".")[2]
    same_end = [candidate for candidate in names if candidate.rpartition(".")[2] == last]
    if same_end:
        return (get_close_matches(name, same_end, 1, 0.0) or same_end)[0]
    lowered = {candidate.lower(): candidate for candidate in names}
    matches = get_close_matches(name.lower(), lowered, 1, cutoff)
    if matches:
        return lowered[matches[0]]
    ends = {candidate.rpartition(".")[2].lower(): candidate for candidate in reversed(names)}
    matches = get_close_matches(last.lower(), ends, 1, max(cutoff, 0.75))
    return ends[matches[0]] if matches else None


def mend(name: object, valid: Iterable[str], kind: str = "valid names") -> str:
    """A line for SpecError.mend: `did you mean 'x'?`, and the valid names when they are few enough to read."""
    names = list(dict.fromkeys(valid))
    near = nearest(str(name), names) if names else None
    listed = ", ".join(names[:SHOWN]) + (f", ... ({len(names)} in all)" if len(names) > SHOWN else "")
    if near is not None:
        return f"did you mean {near!r}?" + (f" ({kind}: {listed})" if len(names) <= SHOWN else "")
    return f"{kind}: {listed}" if names else f"there are no {kind}"
