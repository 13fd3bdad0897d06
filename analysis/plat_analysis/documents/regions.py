"""Marked regions of a Markdown page, whose content a command writes.

A region is `<!-- results: WHAT -->...<!-- end -->`. Where the first comment stands alone on its line, the content is a
block with empty lines around it; else it is part of a sentence. What stands in code is left alone.
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
    """The page with every region's content anew: `content_of(what, place)` gives it as Markdown.

    SpecError, at file:line, for a mark without its partner.
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
    """The page, of the same length, with blanks in the place of code and of regions."""
    outside = list(_without_code(text))
    for match in _regions(path, text):
        for index in range(match.start(), match.end()):
            outside[index] = "\n" if text[index] == "\n" else " "
    return "".join(outside)


def place(path: Path, text: str, position: int) -> str:
    """`docs/results.md:12`: the line of a position."""
    return f"{path}:{text.count(chr(10), 0, position) + 1}"


def _regions(path: Path, text: str) -> Iterator[re.Match[str]]:
    """The regions of a page in order, as matches in the page's own text."""
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
    """SpecError where a mark stands between two positions at which none may."""
    mark = MARK.search(plain, start, end)
    if mark:
        raise SpecError(
            "a mark of results has no partner",
            where=place(path, text, mark.start()),
            mend="write `<!-- results: WHAT -->...<!-- end -->`, and no region inside another",
        )


def _without_code(text: str) -> str:
    """The text, of the same length, with blanks in the place of code that is no region's content."""
    return CODE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)
