"""Draw the verdicts of claims as a badge: an SVG for a README or a web page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plat_analysis.claims.engine import Verdict

GOOD, BAD, NEUTRAL = "#2e7d32", "#c62828", "#546e7a"
LABEL = "claims"
WIDTH_OF_LETTER, MARGIN, HEIGHT = 7, 8, 20  # pixels
SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" role="img" aria-label="{title}">
<title>{title}</title>
<rect width="{left}" height="{height}" fill="#37474f"/>
<rect x="{left}" width="{right}" height="{height}" fill="{colour}"/>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{left_at}" y="14" textLength="{left_text}">{label}</text>
<text x="{right_at}" y="14" textLength="{right_text}">{says}</text>
</g>
</svg>
"""


def drawn(verdicts: Sequence[Verdict]) -> str:
    """Return the badge: how many verdicts are as expected; where no claim expects anything, how many are shown."""
    says, colour = _words(verdicts)
    left, right = (WIDTH_OF_LETTER * len(text) + 2 * MARGIN for text in (LABEL, says))
    return SVG.format(
        width=left + right,
        height=HEIGHT,
        title=escape(f"{LABEL}: {says}", quote=True),
        left=left,
        right=right,
        colour=colour,
        left_at=left / 2,
        right_at=left + right / 2,
        left_text=left - 2 * MARGIN,
        right_text=right - 2 * MARGIN,
        label=LABEL,
        says=escape(says),
    )


def _words(verdicts: Sequence[Verdict]) -> tuple[str, str]:
    expecting = [verdict for verdict in verdicts if verdict.expected]
    differing = sum(not verdict.as_expected for verdict in expecting)
    if differing:
        return f"{differing} of {len(expecting)} not as expected", BAD
    if expecting:
        return f"{len(expecting)} as expected", GOOD
    counts = Counter(verdict.kind for verdict in verdicts)
    return ", ".join(f"{number} {word}" for word, number in counts.items()) or "none", NEUTRAL
