"""Read lines by patterns of the user: `step {step}: train loss {train_loss}`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

from plat.errors import SpecError
from plat.trainer.script.readers.objects import Logged, Objects, Refuse, step_names
from plat.trainer.script.readers.text import NUMBER, WORDS, plain

NAME = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|\s+")
GROUP = re.compile(r"[A-Za-z_][\w./@-]*")


def compiled(pattern: str) -> tuple[re.Pattern[str], list[str]]:
    """Return the regular expression of a pattern, and the names of its groups in their order.

    Blanks stand for any blanks, `{{` and `}}` for braces. Raises SpecError for a wrong name, or if there is none.
    """
    names: list[str] = []
    parts, place = [], 0
    for match in NAME.finditer(pattern):
        parts.append(re.escape(pattern[place : match.start()]))
        place = match.end()
        if match[1] is not None:
            names.append(match[1])
        literal = r"\s+" if match[0].isspace() else re.escape(match[0][0])
        parts.append(literal if match[1] is None else rf"({NUMBER})")
    parts.append(re.escape(pattern[place:]))
    wrong = next((name for name in names if not GROUP.fullmatch(name) or names.count(name) > 1), None)
    if wrong is not None or not names:
        what = f"{{{wrong}}} is no name" if wrong is not None else f"{pattern!r} names no number"
        fix = "write for example: step {step}: train loss {train_loss}"
        raise SpecError(what, where="script.patterns", fix=fix)
    return re.compile("".join(parts).strip()), names


class Patterns:
    """The metrics in lines that match a pattern. A match without a step counts at the newest one, or is counted.

    step   the name of the step; "": the first of those in `text.WORDS` that a pattern has
    """

    def __init__(self, patterns: Sequence[str], step: str, refuse: Refuse, first: int = 1) -> None:
        self._patterns = [compiled(pattern) for pattern in patterns]
        self._steps = step_names(step) if step else WORDS
        self._counted = Objects("\n", refuse, "the output", first=first)
        self._newest: tuple[str, int] | None = None

    def read(self, line: str, at: float | None = None) -> Iterator[Logged]:
        """Yield the metrics of every pattern that matches in a line."""
        text = plain(line)
        for pattern, names in self._patterns:
            match = pattern.search(text)
            if match is None:
                continue
            found = {name: float(number.replace(",", "")) for name, number in zip(names, match.groups(), strict=True)}
            word = next((name for step in self._steps for name in names if name.lower() == step), "")
            if word and found[word].is_integer() and found[word] >= 0:
                self._newest = word, int(found.pop(word))
            if self._newest and found:
                yield Logged(self._newest[1], found, at or time.time(), self._newest[0])
            elif found and not word:
                yield from self._counted.of_values(found, at)

    def end(self) -> Iterator[Logged]:
        """Yield what waited for a line with a step, if there was none."""
        if self._newest is None:
            yield from self._counted.end()
