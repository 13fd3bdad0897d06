"""Answer a shell: `plat __complete SHELL LINE` prints what can stand at the end of the line."""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Sequence

from plat.cli.completion.candidates import candidates
from plat.cli.completion.shells import answers


def answer(arguments: Sequence[str]) -> None:
    """Print the answers for (shell, line up to the cursor). A mistake prints nothing: the user types on."""
    with contextlib.suppress(Exception):
        shell, line = arguments
        words, unfinished, quoted = split(line)
        lines = answers(shell, unfinished, quoted, candidates(words, unfinished))
        sys.stdout.write("".join(f"{text}\n" for text in lines))
        sys.stdout.flush()


def split(line: str) -> tuple[list[str], str, bool]:
    """Return the words after `plat`, the unfinished word, and whether the cursor is inside quotes.

    Raises ValueError if the line cannot be split.
    """
    for closing in ("", "'", '"'):
        with contextlib.suppress(ValueError):
            words = shlex.split(f"{line}x{closing}")  # with x, an empty last word counts, too
            return words[1:-1], words[-1][:-1], bool(closing)
    raise ValueError(line)
