"""Says on a terminal that something takes long, and how far it is."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from typing import TypeVar

from plat.cli.output import tell

FIRST_SECONDS = 3.0  # of silence before the first word
EVERY_SECONDS = 10.0  # between two words
T = TypeVar("T")


def followed(items: Sequence[T], doing: str, /) -> Iterator[T]:
    """The items; says on stderr `doing: 120 of 720 ...` where going through them takes long. Silent where nobody
    watches: stderr is no terminal.

    doing  what is done to them, such as "checking runs"
    """
    due = time.monotonic() + FIRST_SECONDS
    for done, item in enumerate(items):
        if time.monotonic() >= due and sys.stderr.isatty():
            tell(f"{doing}: {done:,} of {len(items):,} ...")
            due = time.monotonic() + EVERY_SECONDS
        yield item
