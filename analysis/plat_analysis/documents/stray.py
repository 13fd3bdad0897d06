"""Numbers that look measured and stand in no region: a check could not notice an edit of one by hand.

Numbers that nobody measured (settings, definitions, what a paper prints) are named on their line, in a comment that
readers do not see: `at a cost of .003 <!-- given: .003 -->`, several with semicolons between them. So an edit of such a
number is noticed as well, as long as the comment is not edited with it. Inline code and code blocks are left alone.
"""

from __future__ import annotations

import re
from pathlib import Path

from plat_analysis.documents.regions import place, without_regions

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
# what is not read: comments, where a link leads, names with a version, and indented code
NOT_READ = re.compile(
    r"<!--.*?-->|\]\([^)\n]*\)|https?://\S+|\b(?:arXiv|Python|Llama|Qwen|verl) \d[\d.]*|^ {4}\S[^\n]*",
    re.DOTALL | re.MULTILINE,
)


def stray_numbers(path: Path, text: str) -> list[str]:
    """`README.md:12: +3.2 looks measured and stands in no region of results`, and given numbers that are not there."""
    plain = without_regions(path, text)
    allowed, problems = _given(path, plain)
    read = NOT_READ.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), plain)
    for match in MEASURED.finditer(read):
        if not any(start <= match.start() and match.end() <= end for start, end in allowed):
            number = " ".join(match[0].split())
            problems.append(f"{place(path, text, match.start())}: {number} looks measured and stands in no region")
    return problems


def _given(path: Path, plain: str) -> tuple[list[tuple[int, int]], list[str]]:
    """Where the given numbers stand, each on the line of its comment; and a line for each that does not."""
    spans, problems = [], []
    for match in GIVEN.finditer(plain):
        start = plain.rfind("\n", 0, match.start()) + 1
        end = plain.find("\n", match.end())
        line = GIVEN.sub(lambda comment: " " * len(comment[0]), plain[start : len(plain) if end < 0 else end])
        for phrase in match["phrases"].split("; "):
            found = [start + hit.start() for hit in re.finditer(rf"(?<![\w.]){re.escape(phrase)}(?!\w)", line)]
            spans += [(at, at + len(phrase)) for at in found]
            if not found:
                problems.append(
                    f"{place(path, plain, match.start())}: {phrase!r} is given, and stands not on this line"
                )
    return spans, problems
