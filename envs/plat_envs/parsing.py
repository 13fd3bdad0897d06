"""`<think> .. </think> <answer> .. </answer>` with spans, in characters: the one parser of responses.

Two forms are accepted: the whole response, and one whose opening `<think>` was already part of the prompt (generation
is prefilled with it, as in the paper). Between `</think>` and `<answer>` there may be white space only; text after
`</answer>` is ignored. Nothing here ever raises on strange text.
"""

from __future__ import annotations

from typing import NamedTuple

from plat_envs.vocabulary import ANSWER, END_ANSWER, END_THINK, THINK

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
