"""What plat says of results, for tests that damage files: whether it is right, absent, or said to be wrong."""

from __future__ import annotations

import re


def said(plat, *command):
    """(exit code, what is shown, what else is said); no mistake of plat."""
    code, out, err = plat(*command)
    assert code in (0, 2, 3) and "a mistake in plat" not in out + err, (command, out + err)
    return code, out, err


def same_or_absent(out, whole):
    """Whether every number shown is the right one, or a dash; or a warning says why not. Lines on progress count not:
    a run whose result is gone is done again, and they say so."""
    out, whole = (re.sub(r"^\[ +[\d.]+ s\] .*\n", "", text, flags=re.MULTILINE) for text in (out, whole))
    cells, right = (
        [word for word in text.split() if word[0] == "—" or re.search(r"\d", word)] for text in (out, whole)
    )
    absent = len(cells) == len(right) and all(
        cell[0] == "—" or cell == other for cell, other in zip(cells, right, strict=True)
    )
    return out == whole or absent or out.count("warning") > whole.count("warning")


def values(rows):
    """Run -> what its result says; nothing of a run that is not shown as done."""
    keys = ("outcome", "success", "best", "iteration")
    return {row["id"]: [row[key] for key in keys] for row in rows if row["state"] == "done"}
