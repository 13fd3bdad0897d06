"""Letters that point from a cell to its footnote; equal texts share one."""

from __future__ import annotations

from plat_analysis.artifact import Note

LETTERS = "abcdefghijklmnoprstuvwxyz"  # no q: Unicode has no superscript for it


class Marks:
    """Gives each text its mark, in the order of first use: a, b, ..., z, aa, bb, ..."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def of(self, text: str) -> str:
        """The mark of a footnote with this text; "" for an empty text."""
        if not text:
            return ""
        turn, letter = divmod(len(self._marks), len(LETTERS))
        return self._marks.setdefault(text, LETTERS[letter] * (turn + 1))

    def notes(self) -> list[Note]:
        """The footnotes, in the order of their marks."""
        return [Note(text, mark) for text, mark in self._marks.items()]
