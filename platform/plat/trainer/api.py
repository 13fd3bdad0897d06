"""The contract between the platform and a trainer (light: imports no torch).

A trainer is a `TrainerSpec` published under the entry-point group `plat.trainers`. The platform composes and validates
the config, takes the lease, and calls `spec.load()(config, io)`. The trainer uses the platform through `RunIO` only.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

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
    code: Path | None  # the copy of the files that the config names (`TrainerSpec.snapshots`)

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


Train = Callable[[Any, RunIO], Outcome]
HEADLINE = VAL_SUCCESS  # of a trainer that names no other


def train_iterations(config: Mapping[str, Any]) -> int | None:
    """Return `train.iterations` of a plain config; None if it is missing or not a whole number."""
    train = config.get("train")
    value = train.get("iterations") if isinstance(train, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class TrainerSpec:
    """Description of a trainer for the platform. Importing the module that defines one must not import torch.

    name              as in the experiment file (`trainer: mine`)
    version           semantic version, part of every run's identity: increase it when results change
    config_type       dataclass, the typed schema of a run's config (OmegaConf structured config)
    load              () -> train(config: config_type instance, io) -> Outcome; heavy imports happen here
    conf              module with Hydra groups (`mine.conf`), or None: the dataclass's defaults are the whole config
    operational_keys  dotted keys (or prefixes) of the config that never change results; left out of the identity
    legacy            dotted key -> the value meaning "as before this option existed"; left out of the identity if equal
    validate          config -> normalised config; raises SpecError (what, fix; `where` may name a dotted key) for
                      combinations that cannot run. Must be quick: it runs whenever a file is read. Runs share parts of
                      the config: return the same object if there is nothing to normalise, else a `dataclasses.replace`;
                      change nothing in place
    resources         config -> Resources, or a mapping of the same names, e.g. {"threads": 4, "gpus": 1}: the needs of
                      a run of this config (a larger model may need more)
    fingerprint       config -> extra facts that are part of the identity (e.g. the content of the base model)
    prepare           None, or config -> None (nothing to prepare) or (key, title): work shared between runs (e.g.
                      building a base model), done once per key, before the runs that need it
    load_prepare      None, or () -> prepare(config, cache: Path), which does that work: idempotent, keeps its result at
                      cache/<kind>/<key>
    load_evaluate     None, or () -> evaluate(config, state, cache: Path, options: Mapping) -> dict, for `plat eval`;
                      raises SpecError for unknown options
    preload           modules to import once in the worker server
    stall_after       seconds without an event (a metric or a table) after which a run is ended as stalled. It must
                      exceed the longest time between two events: the start, an iteration, a checkpoint
    less_memory       None, or config -> the config of the same run that needs less memory at once, e.g. with half the
                      micro-batch; None if it cannot be made smaller. Only operational keys may change. A run that ran
                      out of memory is retried with it
    load_check        None, or () -> check(config): raises SpecError for a config that cannot run, if finding out takes
                      seconds. Runs before anything is submitted, and in `plat plan`
    needs             None, or config -> list of `Need`: servers, files and programs that a run of it
                      needs beside this package, and whether they are there; `plat plan` shows them
    load_plan_note    None, or () -> note(home, runs) -> PlanNote or None: what earlier runs of the home say about these
                      runs, which are not done, for `plat plan`
    check_machine     None, or config -> None: raises SpecError for a config that this machine is too small for. Runs
                      where runs are to be executed here; must be quick. A cluster checks its own nodes
    idle_keys         plain config (as in config.yaml) -> dotted keys that have no effect in it, with reasons. Overrides
                      of such keys are ignored with a warning, so that they make no new run
    code              name of the code if it is not an installed release. None: the hash of its files, so that a
                      changed file makes new runs. With a constant text, existing runs stay valid after a change: the
                      author asserts that changes alter no result
    disk_bytes        None, or config -> bytes that a run of it keeps on disk; None: estimated from earlier runs
    metrics           names of all metrics that it can log, with wildcards as in `fnmatch` (`grad/q*/task`): a report or
                      a search that needs another one is refused before anything runs. Empty: unknown
    source_files      None, or config -> file name -> hash, of files that the config names and that decide the result,
                      such as a script: a changed file makes new runs
    snapshots         None, or a module as `plat.trainer.script.snapshot`, which copies these files when a sweep starts
    doubts            None, or (config of the first run, number of seeds) -> warnings about a set of runs for `plat
                      plan`, for example that all of them write the same file
    headline          the metric that live progress, `plat status` and result.json show as success (a share, 0 to 1), or
                      plain config -> its name
    shown             label -> metric (a share, 0 to 1) that live progress, `plat runs` and `plat diff` show beside it
    iterations        plain config (as in config.yaml) -> the number of iterations of the run, None if unknown
    reuses_process    True: training starts separate processes, and changes nothing in the process of the run. This
                      machine may then execute several runs in one process, one after another
    cost_keys         dotted config keys that a run's time depends on, the most important first: `plat plan` estimates
                      from earlier runs that agree in as many of them as possible
    """

    name: str
    version: str
    config_type: type
    load: Callable[[], Train]
    conf: str | None = None
    operational_keys: tuple[str, ...] = ()
    legacy: Mapping[str, Any] = field(default_factory=dict)
    validate: Callable[[Any], Any] = lambda config: config
    resources: Callable[[Any], Resources | Mapping[str, Any]] = lambda config: {"threads": 1, "gpus": 0}
    fingerprint: Callable[[Any], dict[str, Any]] = lambda config: {}
    prepare: Callable[[Any], tuple[str, str] | None] | None = None
    load_prepare: Callable[[], Callable[[Any, Path], None]] | None = None
    load_evaluate: Callable[[], Callable[..., dict[str, Any]]] | None = None
    preload: tuple[str, ...] = ()
    stall_after: float = 900.0
    less_memory: Callable[[Any], Any | None] | None = None
    load_check: Callable[[], Callable[[Any], None]] | None = None
    needs: Callable[[Any], Sequence[Need]] | None = None
    load_plan_note: Callable[[], Callable[[Any, Sequence[Any]], PlanNote | None]] | None = None
    check_machine: Callable[[Any], None] | None = None
    idle_keys: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda config: {}
    code: str | None = None
    disk_bytes: Callable[[Any], int] | None = None
    metrics: tuple[str, ...] = ()
    source_files: Callable[[Any], Mapping[str, str]] | None = None
    snapshots: Any = None
    doubts: Callable[[Any, int], Sequence[str]] | None = None
    headline: str | Callable[[Mapping[str, Any]], str] = HEADLINE
    shown: Mapping[str, str] = field(default_factory=dict)
    iterations: Callable[[Mapping[str, Any]], int | None] = train_iterations
    reuses_process: bool = False
    cost_keys: tuple[str, ...] = ("task.name", "model.name", "algorithm.name", "filter.name")


def lazily(module: str, name: str) -> Callable[[], Any]:
    """Return a function that imports a module and returns what it calls `name`: a `load` without heavy imports."""
    return lambda: getattr(importlib.import_module(module), name)
