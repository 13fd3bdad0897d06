"""What a dispatcher is told of a search that it executes by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STOP = "stop"  # file in the folder of a submission: its runs are to save and stop


@dataclass(frozen=True)
class SearchCall:
    """A search as another process of this home reads it again.

    name       of the study; unique in the home
    file       absolute path of the search file
    overrides  those of the command line
    resources  of its first run, as the trainer states them
    """

    name: str
    file: str
    overrides: tuple[str, ...]
    resources: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The name under which a submission has the search, in the place of a run's id: no run is called so."""
        return search_id(self.name)


def search_id(name: str) -> str:
    """Return the `SearchCall.id` of the study of this name."""
    return f"search:{name}"
