"""The words that a user gives after the script, such as a subcommand: they stay, and no option is passed twice."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from itertools import takewhile

from plat.app.first_file.flags import Flag
from plat.app.first_file.user_script import OWN

_BARE = re.compile(r"[\w./=:,+@%{}-]+")  # a word that needs no quotes


def not_given(flags: Iterable[Flag], given: Sequence[str], help_text: str) -> list[Flag]:
    """Return the options that the words after the script do not have yet.

    Words before the first option are subcommands, which the usage in the help text names after the program, and then
    the values of the first arguments without a name.
    """
    names = {word.partition("=")[0].lstrip("+~") for word in given}
    usage = re.search(r"usage:\s*(.*)", help_text, re.IGNORECASE)
    before = list(takewhile(lambda word: word[0] not in "[-", usage[1].split() if usage else []))
    values = list(takewhile(lambda word: not word.startswith("-"), given))
    while values and values[0] in before:
        before.remove(values.pop(0))
    left: list[Flag] = []
    for flag in flags:
        if not flag.opening and values:
            values.pop(0)
        elif names.isdisjoint({flag.opening.strip(" =") or None, flag.negation or None, *flag.spellings}):
            left.append(flag)
    return left


def as_written(word: str) -> str:
    """Return a word of the command as the file spells it: braces are doubled, but for plat's own placeholders."""
    doubled = word.replace("{", "{{").replace("}", "}}")
    kept = re.sub(rf"\{{{OWN.pattern}\}}", r"{\1}", doubled)
    return kept if _BARE.fullmatch(kept) else shlex.quote(kept)


def passes_seed(given: Iterable[str]) -> bool:
    return any("{seed}" in word or "{plat.seed}" in word for word in given)
