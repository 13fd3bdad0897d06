"""Build several base models at once, with one process and one thread each.

All processes use the same CPU instructions (NUMERICS), for the same bytes on other machines. Imports no torch.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from plat.processes.process_tree import signal_when_parent_ends
from plat.trainer.embedded.base_model.base_record import NUMERICS, BaseRecord
from plat.trainer.embedded.base_model.compare import TaskComparison, compare
from plat.trainer.run_config import BaseConfig, ModelConfig, RunConfig, ShapeConfig

Result = TypeVar("Result")


@dataclass(frozen=True)
class Verification:
    """A shipped base beside one that was built again from its recipe."""

    shipped: BaseRecord
    rebuilt: BaseRecord
    tasks: list[TaskComparison] = field(default_factory=list)

    @property
    def same_bytes(self) -> bool:
        return self.shipped.sha256 == self.rebuilt.sha256


def model_of(record: BaseRecord) -> ModelConfig:
    """Return a config with the name, shape and base settings of this base; other fields are the defaults."""
    shape, base = ShapeConfig(**record.recipe["shape"]), BaseConfig(**record.recipe["base"])
    return ModelConfig(name=record.model, shape=shape, base=base)


def build_all(models: Sequence[ModelConfig], bases: Path, jobs: int, tell: Callable[[str], None]) -> list[BaseRecord]:
    """Build the missing and damaged bases of these models in a folder of bases; return all, in the order of `models`.

    `tell` receives a line for each base, also for one that was there. Raises CheckpointError if a training diverges.
    """
    return _in_processes(_build, [(model, bases) for model in models], models, jobs, tell)


def verify_all(
    records: Sequence[BaseRecord],
    configs: Sequence[RunConfig],
    margin: float,
    jobs: int,
    tell: Callable[[str], None],
    keep: Path | None = None,
) -> list[Verification]:
    """Build every base again and compare it with its record.

    configs   one for each task, with any model: how it is played
    margin    loss of success (0 to 1) that makes the rebuilt base worse
    tell      receives a line after each build
    keep      folder for the new bases; intact ones there are not built again. None: they are removed afterwards
    """
    models = [model_of(record) for record in records]
    with contextlib.ExitStack() as stack:
        bases = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plat-bases-")))
        tasks = [(record, model, bases, configs, margin) for record, model in zip(records, models, strict=True)]
        return _in_processes(_verify, tasks, models, jobs, tell)


def _in_processes(
    work: Callable[..., Result],
    tasks: Sequence[tuple[Any, ...]],
    models: Sequence[ModelConfig],
    jobs: int,
    tell: Callable[[str], None],
) -> list[Result]:
    """Return `work(*task)` of each task, which builds one of `models`, and report each build.

    The first failure is raised, and no further build starts.
    """
    # long builds first, so that no core is idle at the end
    order = sorted(range(len(models)), key=lambda number: -_cost(models[number]))
    with _processes(min(jobs, len(models))) as pool:
        futures = {pool.submit(work, *tasks[number]): number for number in order}
        results: dict[int, Result] = {}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                model, results[futures[future]] = models[futures[future]], future.result()
                tell(f"{count} of {len(futures)}: {model.name} (seed {model.base.seed}) is built")
        finally:
            for future in futures:
                future.cancel()
    return [results[number] for number in range(len(models))]


def _cost(model: ModelConfig) -> int:
    return model.base.steps * model.base.batch * model.shape.layers * (model.shape.width + 32)


@contextlib.contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Start fresh processes, in which torch reads NUMERICS when it is imported."""
    before = {name: os.environ.get(name) for name in NUMERICS}
    os.environ.update(NUMERICS)
    try:
        with ProcessPoolExecutor(max(1, jobs), mp_context=get_context("spawn"), initializer=_quiet) as pool:
            yield pool
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _quiet() -> None:
    """Print no steps, and end silently on Ctrl-C or when the command was killed."""
    signal_when_parent_ends(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)


def _build(model: ModelConfig, bases: Path) -> BaseRecord:
    from plat.trainer.embedded.base_model.load import build

    return build(model, bases)


def _verify(
    shipped: BaseRecord, model: ModelConfig, bases: Path, configs: Sequence[RunConfig], margin: float
) -> Verification:
    import torch

    torch.set_num_threads(1)
    rebuilt = _build(model, bases)
    played = [replace(config, model=model) for config in configs]
    return Verification(shipped, rebuilt, compare(shipped.folder, rebuilt.folder, played, margin))
