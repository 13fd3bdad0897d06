"""Read the output of a script: lines of JSON, lines of text, and lines that match a pattern."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from plat.trainer.script.readers.objects import Logged, Objects, Refuse
from plat.trainer.script.readers.patterns import Patterns
from plat.trainer.script.readers.text import Text, plain

PLACE = "the output"


class Output:
    """What the lines of the output say.

    text      True: also lines that people read
    patterns  patterns of the user; a line that matches one is read by it alone
    first     the number of the first line without a step
    """

    def __init__(
        self, step: str, refuse: Refuse, *, text: bool = False, patterns: Sequence[str] = (), first: int = 1
    ) -> None:
        self._objects = Objects(step, refuse, PLACE, first=first)
        self._patterns = Patterns(patterns, step, refuse, first)
        self._text = Text(step, refuse, first) if text else None

    def read(self, line: bytes, at: float, is_bar: bool = False) -> Iterator[Logged]:
        """Yield the metrics of a line without its end. `is_bar`: it is a piece of a line with carriage returns."""
        text = plain(line.decode("utf-8", "replace"))
        matched = list(self._patterns.read(text, at))
        if matched:
            yield from matched
        elif self._text is not None:
            yield from self._text.read(text, at, "changed" if is_bar else "first")
        elif "{" in text and (is_bar or text.lstrip().startswith("{")):
            yield from self._objects.of_line(text[text.index("{") :], at)

    def end(self) -> Iterator[Logged]:
        """Yield what waited for a line with a step: there is none."""
        yield from self._objects.end()
        yield from self._patterns.end()
        if self._text is not None:
            yield from self._text.end()
