"""The contract between the platform and a trainer (light: imports no torch).

A trainer is a subclass of `Trainer`, published under the entry-point group `plat.trainers`. The platform composes and
validates the config, takes the lease, and calls `train(config, io)`. A trainer uses the platform through `RunIO` only.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol

from plat.errors import PluginError, RunError
from plat.trainer.resources import Resources
from plat.words.metric_names import VAL_SUCCESS


@dataclass
class State:
    """The content of a checkpoint.

    tensors   name -> torch.Tensor, saved as safetensors; all of them are in memory at once
    meta      JSON-able
    files     for a checkpoint saved with `write_files`: the folder with its files, hashes verified; do not change them.
              None for others, and ignored by `RunIO.save`
    """

    tensors: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)
    files: Path | None = None


WriteFiles = Callable[[Path], None]  # writes files of any size into the given empty folder


@dataclass(frozen=True)
class Outcome:
    """The end of a run: `kind` is `finished`, `stopped:<reason>` or `interrupted` (should_stop() obeyed, after a save).

    `summary` (JSON-able scalars, e.g. parameters of the model that was trained) goes into result.json and MLflow tags.
    """

    kind: str
    summary: dict[str, Any] = field(default_factory=dict)


class RunIO(Protocol):
    """The interface through which a trainer records, saves and restores.

    Steps are whole numbers >= 0, in rising order; step 0 is before training. Log everything of steps <= s before
    `save(s, ...)`: a checkpoint at s makes those steps durable.
    """

    cache: Path  # shared between runs, e.g. for base models; content-addressed by the trainer
    code: Path | None  # the copy of the files that the config names (`Trainer.snapshots`)

    @property
    def files(self) -> Path:
        """A folder of the run for files of the trainer's own. All attempts share it, and plat reads none of it."""

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Record what this attempt starts from, e.g. `{"base_sha256": ...}`; call it before `restore` and `log`.

        The facts (JSON-able scalars) go into the attempt's attempt.json at once, and into the summary of the outcome.
        Raises RunError if an earlier attempt of this run with a checkpoint recorded another value under the same name:
        attempts with different starts must not share one history.
        """

    def status(self, text: str) -> None:
        """Show in a few words what the run is doing before its first event, e.g. "starting Ray".

        `plat sweep` and `plat run` show the newest text until there is an event. It is not recorded.
        """

    def log(self, step: int, metrics: Mapping[str, float], *, late: bool = False) -> None:
        """Record metrics of one step. Non-finite values are kept as they are.

        late   True: the step may be below the newest one, for metrics that are counted in another way, e.g. by epoch.
               A checkpoint covers such metrics only if they were logged before it

        Raises RunError if `step` is no whole number >= 0, or is below the newest step and not `late`.
        """

    def table(self, name: str, step: int, data: Any) -> None:
        """Record JSON-able data of a step under a name, e.g. the P x G reward matrix. Raises RunError as `log` does."""

    def save(self, step: int, state: State, *, peak: bool = False, write_files: WriteFiles | None = None) -> None:
        """Write a durable checkpoint; the last two and the newest one marked `peak` of an attempt are kept.

        write_files   for state too large to pass through memory: writes files, from any process, into the given empty
                      folder, and returns when they are complete. Links are refused
        """

    def artifact(self, name: str, write_files: WriteFiles) -> None:
        """Keep files as an artifact of the run, e.g. the final model; replaces an earlier one of this attempt.

        write_files   as for `save`. The summary of the outcome then has a hash of all files under `artifact/<name>`
        """

    def restore(self) -> tuple[int, State] | None:
        """Return the newest valid checkpoint, of any attempt, whose peak is not lost, as (step, state); else None."""

    def load_peak(self) -> tuple[int, State] | None:
        """Return the latest checkpoint marked `peak`, never an older one; None if it is lost or none was marked."""

    def should_stop(self) -> bool:
        """Return True when the platform asks the run to stop: save, then return Outcome("interrupted")."""


@dataclass(frozen=True)
class Need:
    """A file, a service or a program that runs need beside this package.

    what    e.g. "a data server at http://127.0.0.1:8000"
    absent  why it cannot be used now; "" if it can
    fix     the command that mends it
    """

    what: str
    absent: str = ""
    fix: str = ""


@dataclass(frozen=True)
class PlanNote:
    """What a trainer adds to a plan, from what the home has.

    name   the key of `rows` in `plat plan --json`
    rows   JSON-able
    lines  the same as text, for a person
    """

    name: str
    rows: list[dict[str, Any]]
    lines: list[str]


HEADLINE = VAL_SUCCESS  # of a trainer that names no other
SUBCLASS = "subclass plat.trainer.api.Trainer, and name the class: docs/adding-a-trainer.md says how"


class Trainer(ABC):
    """A trainer. The entry point names the subclass, and plat calls it once, without arguments.

    Importing the module of a trainer must not import torch: heavy imports happen inside its methods. Only `train`, and
    the first three attributes, are required. In the methods, `config` is an instance of `config_type`, or the same as
    a dict, as in config.yaml, where it is a Mapping. Methods change no config in place.

    name              as in the experiment file (`trainer: mine`)
    version           semantic version, part of every run's identity: increase it when results change
    config_type       dataclass, the typed schema of a run's config (OmegaConf structured config)
    conf              module with Hydra groups (`mine.conf`), or None: the dataclass's defaults are the whole config
    operational_keys  dotted keys (or prefixes) of the config that never change results; left out of the identity
    legacy            dotted key -> the value meaning "as before this option existed"; left out of the identity if equal
    preload           modules that training needs, such as torch: imported once in the worker server, and in any case
                      before plat sets the number of torch's threads
    stall_after       seconds without an event (a metric or a table) after which a run is ended as stalled. It must
                      exceed the longest time between two events: the start, an iteration, a checkpoint
    code              name of the code if it is not an installed release. None: the hash of its files, so that a
                      changed file makes new runs. With a constant text, existing runs stay valid after a change: the
                      author asserts that changes alter no result
    metrics           names of all metrics that it can log, with wildcards as in `fnmatch` (`grad/q*/task`): a report or
                      a search that needs another one is refused before anything runs. Empty: unknown
    shown             label -> metric (a share, 0 to 1) that live progress, `plat runs` and `plat diff` show beside the
                      headline
    reuses_process    True: training starts separate processes, and changes nothing in the process of the run. This
                      machine may then execute several runs in one process, one after another
    cost_keys         dotted config keys that a run's time depends on, the most important first: `plat plan` estimates
                      from earlier runs that agree in as many of them as possible
    snapshots         None, or a module as `plat.trainer.script.snapshot`, which copies the `source_files` of runs when
                      a sweep starts
    """

    name: str
    version: str
    config_type: type
    conf: str | None = None
    operational_keys: tuple[str, ...] = ()
    legacy: Mapping[str, Any] = MappingProxyType({})
    preload: tuple[str, ...] = ()
    stall_after: float = 900.0
    code: str | None = None
    metrics: tuple[str, ...] = ()
    shown: Mapping[str, str] = MappingProxyType({})
    reuses_process: bool = False
    cost_keys: tuple[str, ...] = ("task.name", "model.name", "algorithm.name", "filter.name")
    snapshots: Any = None

    @abstractmethod
    def train(self, config: Any, io: RunIO) -> Outcome:
        """Train one run, from `io.restore()` if there is a checkpoint, and return how it ended."""

    def validate(self, config: Any) -> Any:
        """Return the config, or a normalised `dataclasses.replace` of it. Must be quick: it runs when a file is read.

        Raises SpecError for combinations that cannot run; its `where` may name a dotted key.
        """
        return config

    def resources(self, config: Any) -> Resources | Mapping[str, Any]:
        """Return the needs of a run of this config, as Resources or a mapping of the same names."""
        return {"threads": 1, "gpus": 0}

    def fingerprint(self, config: Any) -> dict[str, Any]:
        """Return extra facts that are part of the identity, e.g. the content of the base model."""
        return {}

    def source_files(self, config: Any) -> Mapping[str, str]:
        """Return file name -> hash of the files that the config names, such as a script: a change makes new runs."""
        return {}

    def idle_keys(self, config: Mapping[str, Any]) -> Mapping[str, str]:
        """Return dotted keys without effect in this config -> the reason. Overrides of these are ignored."""
        return {}

    def preparation(self, config: Any) -> tuple[str, str] | None:
        """Return (key, title) of work that runs share, e.g. building a model, and that `prepare` does once per key."""
        return None

    def prepare(self, config: Any, cache: Path) -> None:
        """Do the shared work, unless it is done: its result is kept at cache/<kind>/<key>.

        Raises RunError in a trainer without this method.
        """
        raise RunError(f"the trainer {self.name!r} names a preparation and has no `prepare`", where=self.name)

    def evaluate(self, config: Any, state: State, cache: Path, options: Mapping[str, Any]) -> dict[str, Any]:
        """Evaluate a checkpoint for `plat eval`.

        Raises SpecError for unknown options, RunError in a trainer without this method.
        """
        raise RunError(f"the trainer {self.name!r} has no `evaluate`", where=self.name)

    def less_memory(self, config: Any) -> Any | None:
        """Return a config with other operational keys that needs less memory at once, for a run that had too little.

        None if there is none.
        """
        return None

    def check(self, config: Any) -> None:
        """Raise SpecError for a config that cannot run. May take seconds: it is called before runs are submitted."""
        return None

    def check_machine(self, config: Any) -> None:
        """Raise SpecError, quickly, for a config that this machine is too small for. A cluster checks its own nodes."""
        return None

    def needs(self, config: Any) -> Sequence[Need]:
        """Return the servers, files and programs that a run needs beside this package, for `plat plan`."""
        return ()

    def doubts(self, config: Any, seeds: int) -> Sequence[str]:
        """Return warnings about several runs for `plat plan`. `config` is the first run's, `seeds` their number."""
        return ()

    def plan_note(self, home: Any, runs: Sequence[Any]) -> PlanNote | None:
        """Return what earlier runs of the home say about these runs, which are not done, for `plat plan`."""
        return None

    def disk_bytes(self, config: Any) -> int | float | None:
        """Return the bytes that a run keeps on disk; None: they are estimated from earlier runs."""
        return None

    def headline(self, config: Mapping[str, Any]) -> str:
        """Return the metric that live progress, `plat status` and result.json show as success (a share, 0 to 1)."""
        return HEADLINE

    def iterations(self, config: Mapping[str, Any]) -> int | None:
        """Return the number of iterations of a run, None if unknown. By default, `train.iterations` of its config."""
        train = config.get("train")
        value = train.get("iterations") if isinstance(train, Mapping) else None
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def has_own(trainer: Trainer, method: str) -> bool:
    """Return True if the trainer's class replaces this method of `Trainer`."""
    return getattr(type(trainer), method) is not getattr(Trainer, method)


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """Explain the import of `TrainerSpec`, which a plug-in for plat 0.4 has."""
        if name != "TrainerSpec":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        importer = sys._getframe(1)
        where = f"{importer.f_code.co_filename}:{importer.f_lineno}"
        raise PluginError("this trainer is for plat 0.4: there is no TrainerSpec any more", where=where, fix=SUBCLASS)
