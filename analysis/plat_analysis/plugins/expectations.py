"""Read `expect` of a claim: the verdicts that are as expected, so that `plat claims --check` can name the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from plat.errors import SpecError

STATUSES = ("shown", "shown_in_part", "contradicted", "not_of_this_size", "open", "not_enough_data")
OLDER = {"reproduced": "shown", "partial": "shown_in_part", "not_reproduced": "contradicted", "undecided": "open"}


def expected_statuses(claim: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the statuses that a claim accepts (`expect`), () if it has no `expect`.

    `expect` is one of STATUSES or a list of them, in words (`not of this size`) or as JSON spells them
    (`not_of_this_size`). `reproduced` is `shown`. Raises SpecError for anything else.
    """
    given = claim.get("expect", [])
    words = [given] if isinstance(given, str) else given
    if (
        not isinstance(words, list)
        or not all(isinstance(word, str) for word in words)
        or ("expect" in claim and not words)
    ):
        what = f"expect: {given!r} is neither a verdict nor a list of verdicts"
        raise SpecError(what, where=where, fix="for example `expect: shown`, or `expect: [shown, open]`")
    statuses = [OLDER.get(word.strip().replace(" ", "_"), word.strip().replace(" ", "_")) for word in words]
    for word, status in zip(words, statuses, strict=True):
        if status not in STATUSES:
            known = ", ".join(one.replace("_", " ") for one in STATUSES)
            raise SpecError(f"expect: there is no verdict {word!r}", where=where, fix=f"one of: {known}; or reproduced")
    return tuple(dict.fromkeys(statuses))
