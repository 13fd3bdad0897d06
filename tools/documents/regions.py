"""Rewrite marked regions of a Markdown page.

A region is `<!-- results: WHAT -->...<!-- end -->`. If the first comment is alone on its line, the content is a block
with empty lines around it; otherwise it is part of a sentence. Marks in code are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from plat.errors import SpecError

REGION = re.compile(r"<!-- results: (?P<what>[^\n]+?) -->(?P<content>.*?)<!-- end -->", re.DOTALL)
MARK = re.compile(r"<!-- (?:results:|end -->)")
CODE = re.compile(r"^```.*?^```|`[^`\n]+`", re.DOTALL | re.MULTILINE)


def rewritten(path: Path, text: str, content_of: Callable[[str, str], str]) -> str:
    """Return the page with the content of every region replaced by `content_of(what, place)`, as Markdown.

    `place` is `path:line`. Raises SpecError, at that place, for a mark without its partner.
    """
    pieces, end = [], 0
    for match in _regions(path, text):
        content = content_of(match["what"], place(path, text, match.start())).strip()
        is_block = text.rfind("\n", 0, match.start()) + 1 == match.start() and match["content"].startswith("\n")
        inner = f"\n\n{content}\n\n" if is_block else content
        pieces += [text[end : match.start("content")], inner]
        end = match.end("content")
    return "".join([*pieces, text[end:]])


def without_regions(path: Path, text: str) -> str:
    """Return the page with code and regions replaced by blanks, of the same length. SpecError as in `rewritten`."""
    outside = list(_without_code(text))
    for match in _regions(path, text):
        for index in range(match.start(), match.end()):
            outside[index] = "\n" if text[index] == "\n" else " "
    return "".join(outside)


def place(path: Path, text: str, position: int) -> str:
    """Return file and line of a position: `docs/results.md:12`."""
    return f"{path}:{text.count(chr(10), 0, position) + 1}"


def _regions(path: Path, text: str) -> Iterator[re.Match[str]]:
    """Yield the regions of a page in order, as matches in its text. SpecError for a mark without its partner."""
    plain = _without_code(text)
    end = 0
    for match in REGION.finditer(plain):
        _check_unmarked(path, text, plain, end, match.start())
        _check_unmarked(path, text, plain, match.start("content"), match.end("content"))
        end = match.end()
        whole = REGION.match(text, match.start())
        assert whole is not None
        yield whole
    _check_unmarked(path, text, plain, end, len(plain))


def _check_unmarked(path: Path, text: str, plain: str, start: int, end: int) -> None:
    """Raise SpecError if there is a mark between two positions."""
    mark = MARK.search(plain, start, end)
    if mark:
        raise SpecError(
            "a mark of results has no partner",
            where=place(path, text, mark.start()),
            fix="write `<!-- results: WHAT -->...<!-- end -->`, and no region inside another",
        )


def _without_code(text: str) -> str:
    """Return the text, of the same length, with code outside regions replaced by blanks."""
    return CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
