"""Build several base models at once, with one process and one thread each.

All processes use the same CPU instructions (NUMERICS), for the same bytes on other machines. Imports no torch.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from plat.errors import RunError
from plat.processes.process_tree import signal_name, signal_when_parent_ends
from plat_envs.api import PICTURE_RENDERINGS
from plat_rl.embedded.base_model.base_record import NUMERICS, BaseRecord
from plat_rl.run_config import BaseConfig, ModelConfig, RunConfig, ShapeConfig

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
    width = record.recipe.get("vision_width", 0)
    return ModelConfig(name=record.model, shape=shape, vision_width=width, base=base)


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

    configs   one for each task and rendering, with any model: how it is played, by bases that know it (`has_seen`)
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

    The first failure is raised, and no further build starts. Raises RunError if a process is killed.
    """
    # long builds first, so that no core is idle at the end
    order = sorted(range(len(models)), key=lambda number: -_cost(models[number]))
    with ThreadPoolExecutor(max(1, min(jobs, len(models)))) as pool:
        futures = {pool.submit(_in_a_process, work, tasks[number], models[number]): number for number in order}
        results: dict[int, Result] = {}
        try:
            for count, future in enumerate(as_completed(futures), 1):
                model, results[futures[future]] = models[futures[future]], future.result()
                tell(f"{count} of {len(futures)}: {model.name} (seed {model.base.seed}) is built")
        finally:
            for future in futures:
                future.cancel()
    return [results[number] for number in range(len(models))]


def _in_a_process(work: Callable[..., Result], task: tuple[Any, ...], model: ModelConfig) -> Result:
    """Return `work(*task)`, computed in a fresh process, in which torch reads NUMERICS when it is imported.

    The process has pipes and no semaphore, so a kill of everything leaves nothing on the machine.
    """
    command = [sys.executable, "-c", f"from {__name__} import answer; answer()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, **NUMERICS})
    said, _ = process.communicate(pickle.dumps((list(sys.path), work, task)))
    if process.returncode:
        what = f"the process that builds {model.name} (seed {model.base.seed}) ended with {ending(process.returncode)}"
        fix = "give the same command again: finished base models are kept; with too little memory, with fewer --jobs"
        raise RunError(what, fix=fix, failure_class="node")
    is_done, value = pickle.loads(said)
    if not is_done:
        raise value
    return cast(Result, value)


def answer() -> None:
    """Read a function and its arguments from stdin, and write (True, its value) or (False, its error) to stdout."""
    out = os.dup(1)
    _quiet()
    sys.path[:], work, task = pickle.load(sys.stdin.buffer)
    try:
        answered: tuple[bool, Any] = (True, work(*task))
    except Exception as error:
        answered = (False, error)
    with open(out, "wb") as stream:
        pickle.dump(answered, stream)


def ending(code: int) -> str:
    """Return how a process ended, by its return code: `exit code 1`, or `SIGKILL`."""
    return f"exit code {code}" if code > 0 else signal_name(-code)


def _cost(model: ModelConfig) -> int:
    return model.base.steps * model.base.batch * model.shape.layers * (model.shape.width + 32)


def _quiet() -> None:
    """Print no steps, and end silently on Ctrl-C or when the command was killed."""
    signal_when_parent_ends(signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)


def _build(model: ModelConfig, bases: Path) -> BaseRecord:
    from plat_rl.embedded.base_model.load import build

    return build(model, bases)


def _verify(
    shipped: BaseRecord, model: ModelConfig, bases: Path, configs: Sequence[RunConfig], margin: float
) -> Verification:
    import torch

    torch.set_num_threads(1)
    rebuilt = _build(model, bases)
    played = [replace(config, model=model) for config in configs if has_seen(shipped, config)]
    return Verification(shipped, rebuilt, compare(shipped.folder, rebuilt.folder, played, margin))


def has_seen(record: BaseRecord, config: RunConfig) -> bool:
    """Return True if a base was trained on the task of a config in its rendering.

    A base without a list of corpora also plays tasks of other versions, as text.
    """
    task, rendering = config.task.name, config.train.rendering
    if not record.corpora:
        return rendering == "compact"
    return any((corpus["task"], corpus["rendering"]) == (task, rendering) for corpus in record.corpora)


# Compare two base models by their success on the same held-out instances, those of `plat eval`.
#
# The difference is paired by instance. Its 95 % interval is that of Agresti and Min (2005) for two dependent
# proportions: Wald's interval with half a count added to each of the four cells.

Z95 = 1.959964  # 97.5 % quantile of the normal distribution
AS_GOOD, WORSE, UNDECIDED = "as good", "worse", "undecided"


@dataclass(frozen=True)
class TaskComparison:
    """One task. Success rates and differences are shares (0 to 1); `difference` is rebuilt minus shipped."""

    task: str
    instances: int
    shipped: float
    rebuilt: float
    difference: float
    low: float
    high: float
    verdict: str


def compare(shipped: Path, rebuilt: Path, configs: Sequence[RunConfig], margin: float) -> list[TaskComparison]:
    """Play `eval.heldout` instances of each config's task with both bases, and return a comparison for each config."""
    results = []
    for config in configs:
        first, second = _successes(shipped, config), _successes(rebuilt, config)
        difference, low, high = paired_difference(first, second)
        results.append(
            TaskComparison(
                task=config.task.name + (" (pictures)" if config.train.rendering in PICTURE_RENDERINGS else ""),
                instances=len(first),
                shipped=sum(first) / len(first),
                rebuilt=sum(second) / len(second),
                difference=difference,
                low=low,
                high=high,
                verdict=verdict(low, high, margin),
            )
        )
    return results


def paired_difference(first: Sequence[int], second: Sequence[int]) -> tuple[float, float, float]:
    """Return the mean of second - first and its 95 % interval, for successes (0 or 1) on the same instances."""
    count = len(first)
    gained = sum(1 for before, after in zip(first, second, strict=True) if after > before)
    lost = sum(1 for before, after in zip(first, second, strict=True) if after < before)
    b, c, n = gained + 0.5, lost + 0.5, count + 2
    centre = (b - c) / n
    half = Z95 * math.sqrt(b + c - (b - c) ** 2 / n) / n
    return (gained - lost) / count, max(-1.0, centre - half), min(1.0, centre + half)


def verdict(low: float, high: float, margin: float) -> str:
    """Return `as good` if the interval [low, high] lies above -margin, `worse` if it lies below, else `undecided`."""
    return AS_GOOD if low > -margin else WORSE if high < -margin else UNDECIDED


def _successes(folder: Path, config: RunConfig) -> list[int]:
    from plat.trainer.api import State
    from plat_rl.embedded.evaluate import evaluate_checkpoint
    from plat_rl.embedded.transformer import hf

    _, flat = hf.load(folder)
    played: dict[str, Any] = evaluate_checkpoint(
        config, State({"actor.parameters": flat}), folder, {"split": "heldout", "instances": config.eval.heldout}
    )
    return list(played["results"]["success"])
