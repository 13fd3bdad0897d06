"""`<think> .. </think> <answer> .. </answer>` with spans, in characters and in tokens: the one parser of responses.

Two forms are accepted: the whole response, and one whose opening `<think>` was already part of the prompt (generation
is prefilled with it, as in the paper). Between `</think>` and `<answer>` there may be white space only; text after
`</answer>` is ignored. Nothing here ever raises on strange text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from plat_envs.vocabulary import ANSWER, END_ANSWER, END_THINK, IDS, THINK

Span = tuple[int, int]  # [start, end)


class Parsed(NamedTuple):
    """`valid`: both sections are there, in order. Without them the missing part is "" with an empty span.

    The spans leave out the tags and the white space next to them: text[slice(*span)] is exactly the part.
    """

    think: str
    answer: str
    valid: bool
    think_span: Span
    answer_span: Span


def _trimmed(text: str, start: int, end: int) -> tuple[str, Span]:
    """The section of text without outer white space, and where it lies."""
    section = text[start:end]
    stripped = section.strip()
    if not stripped:
        return "", (start, start)
    start += len(section) - len(section.lstrip())
    return stripped, (start, start + len(stripped))


def parse(text: str) -> Parsed:
    """Sections of a response. An unfinished think section counts as thinking up to the end of the text."""
    close = text.find(END_THINK)
    end = len(text) if close < 0 else close
    opened = text.find(THINK, 0, end)
    think, think_span = _trimmed(text, 0 if opened < 0 else opened + len(THINK), end)
    nothing = Parsed(think, "", False, think_span, (len(text), len(text)))
    if close < 0:
        return nothing
    after = close + len(END_THINK)
    start = text.find(ANSWER, after)
    if start < 0 or text[after:start].strip():
        return nothing
    start += len(ANSWER)
    stop = text.find(END_ANSWER, start)
    if stop < 0:
        return nothing
    answer, answer_span = _trimmed(text, start, stop)
    return Parsed(think, answer, True, think_span, answer_span)


@dataclass(frozen=True)
class Markers:
    """Token ids of the four tags, each a single token."""

    think: int
    end_think: int
    answer: int
    end_answer: int


COMPACT_MARKERS = Markers(IDS[THINK], IDS[END_THINK], IDS[ANSWER], IDS[END_ANSWER])


class TokenSpans(NamedTuple):
    """[start, end) of both sections in a sequence of tokens, tags left out; an absent section is empty."""

    think: Span
    answer: Span
    valid: bool


def _find(ids: Sequence[int], token: int, start: int, end: int) -> int:
    for index in range(start, end):
        if ids[index] == token:
            return index
    return -1


def parse_tokens(ids: Sequence[int], markers: Markers = COMPACT_MARKERS) -> TokenSpans:
    """Sections of a response as token spans; the rules of `parse`. Pass the tokens before the end-of-text token."""
    length = len(ids)
    close = _find(ids, markers.end_think, 0, length)
    end = length if close < 0 else close
    opened = _find(ids, markers.think, 0, end)
    think = (opened + 1, end)
    if close < 0 or close + 1 >= length or ids[close + 1] != markers.answer:
        return TokenSpans(think, (length, length), False)
    stop = _find(ids, markers.end_answer, close + 2, length)
    if stop < 0:
        return TokenSpans(think, (length, length), False)
    return TokenSpans(think, (close + 2, stop), True)
