"""What a reader of MLflow must give, before it becomes frames; both readers are held to the same numbers."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from plat.store.mlflow.backend import LARGEST

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class RawRun:
    """One MLflow run; `artifacts` is the URI of its folder. `params` is empty where they were not asked for."""

    mlflow_id: str
    name: str
    tags: dict[str, str]
    params: dict[str, str]
    artifacts: str


class Series(NamedTuple):
    """All metrics of a run: K keys in order, their counts n_k; steps and values of length sum(n_k), by key and step."""

    keys: list[str]
    counts: list[int]
    steps: np.ndarray  # int64
    values: np.ndarray  # float64


class RawReader(Protocol):
    """A store open for reading. Every method may raise StoreError."""

    def runs(self, file: str, params: bool = True) -> list[RawRun]:
        """Runs tagged `plat.in.<file>` that are not deleted, in any order; with their params, or without."""

    def deleted(self, file: str) -> set[str]:
        """The plat ids of runs with that tag that lie in MLflow's bin because a person has put them there."""

    def series(self, run: RawRun, keys: Collection[str] | None = None) -> Series:
        """The metrics of a run that have these keys (default: all)."""

    def artifact(self, run: RawRun, name: str) -> bytes | None: ...

    def close(self) -> None: ...


def restore(values: np.ndarray) -> np.ndarray:
    """Infinities again where an SQL store keeps the largest number instead (in place)."""
    import numpy as np

    values[values >= LARGEST] = np.inf
    values[values <= -LARGEST] = -np.inf
    return values
