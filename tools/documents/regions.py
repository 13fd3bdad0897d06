"""Rewrite marked regions of a Markdown page, and find measured numbers outside of them.

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


# Find numbers outside regions that look measured: a check could not notice a manual edit of them.
#
# Numbers that are not measured (settings, definitions, numbers printed in the paper) are declared on their line in a
# comment hidden from readers: `at a cost of .003 <!-- given: .003 -->`, several with semicolons between them. An edit
# of such a number is then found, unless the comment is edited as well. Inline code and code blocks are ignored.

COUNT = r"(?:\d+|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|none|no run|neither|both|all)"
NUMBER = r"(?:\d*\.\d+|\d+|one|two|three|four|five|six|seven|eight|nine|ten|twelve|twenty|thirty)"
MEASURED = re.compile(
    "|".join(
        (
            r"\d\\?\*(?!\*)",  # a star
            r"±",
            r"(?<![\w.^])[+−]\d*\.?\d+",  # a signed number
            r"\[[+−-]?\d*\.\d+, ?[+−-]?\d*\.?\d+\]",  # an interval
            r"(?<![\w.])\d*\.\d+(?![\w.]*\d)",  # a decimal
            r"\d+ ?%",
            r"(?<![\w-])p\s*(?:=|<|below|of)?\s*\.?\d[\d.]*",
            rf"\b{COUNT}\s+(?:runs?\s+|seeds?\s+)?(?:of|in|out of)\s+(?:the\s+|these\s+|those\s+)?(?:\d+|{NUMBER})\b",
            rf"(?<![\w.]){NUMBER}\s+(?:points?|pp|seconds?|minutes?|hours?)\b",
            r"\d+ ?(?:times\b|×)",
            r"\b(?:a|one|two|three)\s+(?:third|quarter|fifth|sixth|seventh|eighth|tenth)s?\s+(?:of|more|less|fewer)\b",
        )
    ),
    re.IGNORECASE,
)
GIVEN = re.compile(r"<!-- given: (?P<phrases>[^\n]*?) -->")
# ignored: comments, targets of links, names with a version, and indented code
NOT_READ = re.compile(
    r"<!--.*?-->|\]\([^)\n]*\)|https?://\S+|\b(?:arXiv|Python|Llama|Qwen|verl) \d[\d.]*|^ {4}\S[^\n]*",
    re.DOTALL | re.MULTILINE,
)


def stray_numbers(path: Path, text: str) -> list[str]:
    """Return a line for each number outside regions that looks measured, and for each `given` one not on its line."""
    plain = without_regions(path, text)
    allowed, problems = _given(path, plain)
    read = NOT_READ.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), plain)
    for match in MEASURED.finditer(read):
        if not any(start <= match.start() and match.end() <= end for start, end in allowed):
            number = " ".join(match[0].split())
            problems.append(f"{place(path, text, match.start())}: {number} looks measured and stands in no region")
    return problems


def _given(path: Path, plain: str) -> tuple[list[tuple[int, int]], list[str]]:
    """Return the spans of the given numbers, each on the line of its comment, and one line for each that is missing."""
    spans, problems = [], []
    for match in GIVEN.finditer(plain):
        start = plain.rfind("\n", 0, match.start()) + 1
        end = plain.find("\n", match.end())
        line = GIVEN.sub(lambda comment: " " * len(comment[0]), plain[start : len(plain) if end < 0 else end])
        for phrase in match["phrases"].split("; "):
            found = [start + hit.start() for hit in re.finditer(rf"(?<![\w.]){re.escape(phrase)}(?!\w)", line)]
            spans += [(at, at + len(phrase)) for at in found]
            if not found:
                at = place(path, plain, match.start())
                problems.append(f"{at}: {phrase!r} is given, and is not on this line")
    return spans, problems
