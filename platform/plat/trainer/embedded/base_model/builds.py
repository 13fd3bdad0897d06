"""Several base models at once, one process and one thread each, all cores busy.

Every process is started with the same choice of CPU instructions (NUMERICS), so that another machine gives the same
bytes where it can. This module imports no torch; the processes do.
"""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from plat.trainer.config import BaseConfig, ModelConfig, RunConfig, ShapeConfig
from plat.trainer.embedded.base_model.compare import TaskComparison, compare
from plat.trainer.embedded.base_model.record import BaseRecord

# AVX2 is the widest that nearly every x86 CPU has. (MKL_CBWR=COMPATIBLE would hold on more of them, at half the speed.)
NUMERICS = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2"}
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
    """The config that asks for this base."""
    shape, base = ShapeConfig(**record.recipe["shape"]), BaseConfig(**record.recipe["base"])
    return ModelConfig(name=record.model, shape=shape, base=base)


def build_all(models: Sequence[ModelConfig], bases: Path, jobs: int, tell: Callable[[str], None]) -> list[BaseRecord]:
    """Build the bases of these models into a folder of bases, unless they are there. In the order of `models`."""
    with _processes(min(jobs, len(models))) as pool:
        futures = {pool.submit(_build, model, bases): model for model in longest_first(models)}
        built = {id(model): record for model, record in _finished(futures, tell)}
    return [built[id(model)] for model in models]


def verify_all(
    records: Sequence[BaseRecord],
    configs: Sequence[RunConfig],
    margin: float,
    jobs: int,
    tell: Callable[[str], None],
    keep: Path | None = None,
) -> list[Verification]:
    """Build every base again and hold it against the one that is there, on one config for each task.

    configs  one for each task, at any model: how it is played
    keep   a folder of bases for what was built; None: it is removed afterwards
    """
    with contextlib.ExitStack() as stack:
        bases = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="plat-bases-")))
        pool = stack.enter_context(_processes(min(jobs, len(records))))
        models = {record.folder: model_of(record) for record in records}
        ordered = sorted(records, key=lambda record: -_cost(models[record.folder]))
        futures = {
            pool.submit(_verify, record, models[record.folder], bases, configs, margin): models[record.folder]
            for record in ordered
        }
        done = {result.shipped.folder: result for _, result in _finished(futures, tell)}
    return [done[record.folder] for record in records]


def longest_first(models: Sequence[ModelConfig]) -> list[ModelConfig]:
    """Long builds first, so that no core is idle at the end."""
    return sorted(models, key=lambda model: -_cost(model))


def _cost(model: ModelConfig) -> int:
    return model.base.steps * model.base.batch * model.shape.layers * (model.shape.width + 32)


def _finished(
    futures: dict[Future[Result], ModelConfig], tell: Callable[[str], None]
) -> Iterator[tuple[ModelConfig, Result]]:
    """Each as it ends, telling how far it is; the first failure is raised and the rest is not begun."""
    try:
        for number, future in enumerate(as_completed(futures), 1):
            result = future.result()
            tell(f"{number} of {len(futures)}: {futures[future].name} (seed {futures[future].base.seed}) is built")
            yield futures[future], result
    finally:
        for future in futures:
            future.cancel()


@contextlib.contextmanager
def _processes(jobs: int) -> Iterator[ProcessPoolExecutor]:
    """Fresh processes, so that torch reads NUMERICS when it is imported in them."""
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
    """Print no steps, and end without a word on Ctrl-C."""
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
