"""Verbs of the filtered trainer: `plat base`, `plat sandbox`, `plat retrieval`, `plat trajectory`; and their errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from plat.errors import SpecError


@contextmanager
def bad_input() -> Iterator[None]:
    """Raise SpecError for a BadEnvironment in the block."""
    from plat_envs.environment_errors import BadEnvironment

    try:
        yield
    except BadEnvironment as error:
        raise SpecError(error.what, where=error.where, fix=error.fix) from error
