"""Where the run directories of a home lie: `runs/<id>/`, or, in homes made since plat 0.3, `runs/<ab>/<id>/`.

<ab> is the beginning of the id, so that a home of 100,000 runs has folders of a few hundred entries each: file systems
and people handle those better. A home keeps the layout it was made with, so that nothing is ever moved and earlier
versions of plat go on to work with their own homes. A directory that somebody copied to where the other layout would
have it is found there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

SHARD = 2  # characters of an id that name the folder its directory lies in


@dataclass(frozen=True)
class Layout:
    """The folder `runs` of a home, and whether new directories go into folders named by the beginning of their id."""

    runs: str
    is_sharded: bool

    def place(self, run_id: str) -> str:
        """The path of a run's directory, whether it is there or not."""
        usual = self._place(run_id, self.is_sharded)
        if run_id in self._elsewhere and not os.path.exists(usual):
            other = self._place(run_id, not self.is_sharded)
            return other if os.path.exists(other) else usual
        return usual

    def ids(self) -> list[str]:
        """The names of the run directories that are there now, sorted. Names that begin with a dot are left out."""
        return sorted({*self._flat(), *self._sharded()})

    def ids_beginning(self, text: str) -> list[str]:
        """Those whose name begins with a text of at least one character; quick when it is as long as SHARD."""
        if len(text) < SHARD:
            return [run_id for run_id in self.ids() if run_id.startswith(text)]
        among = {*self._flat(), *_names(f"{self.runs}/{text[:SHARD]}")}
        return sorted(run_id for run_id in among if run_id.startswith(text))

    @cached_property
    def _elsewhere(self) -> frozenset[str]:
        """Ids that had a directory in the other layout's place when this was first asked."""
        return frozenset(self._flat() if self.is_sharded else self._sharded())

    def _place(self, run_id: str, is_sharded: bool) -> str:
        return f"{self.runs}/{run_id[:SHARD]}/{run_id}" if is_sharded else f"{self.runs}/{run_id}"

    def _flat(self) -> Iterator[str]:
        return (name for name in _names(self.runs) if len(name) > SHARD)

    def _sharded(self) -> Iterator[str]:
        for shard in _names(self.runs):
            if len(shard) == SHARD:
                yield from (name for name in _names(f"{self.runs}/{shard}") if name.startswith(shard))


def is_flat(runs: str) -> bool:
    """Whether a folder whose home does not say its layout holds run directories of the earlier one."""
    return any(len(name) > SHARD for name in _names(runs))


def _names(folder: str) -> list[str]:
    try:
        return [name for name in os.listdir(folder) if not name.startswith(".")]
    except OSError:
        return []
