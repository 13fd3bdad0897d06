"""The contract between the platform and a trainer (light: imports no torch).

A trainer is a `TrainerSpec` published under the entry-point group `plat.trainers`. The platform composes and validates
the config, takes the lease, and calls `spec.load()(config, io)`; the trainer talks back through `RunIO` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from plat.errors import PluginError, SpecError
from plat.suggest import mend, nearest
from plat.trainer.plugins import ALLOW_IMPORT, imports_allowed, load_plugin, published
from plat.trainer.resources import Resources
from plat.trainer.spec_check import wrong_field
from plat.user_code import definition_of, user_code


@dataclass
class State:
    """What a checkpoint holds.

    tensors   name -> torch.Tensor, saved as safetensors; all of them are in memory at once
    meta      JSON-able
    files     of a checkpoint that was saved with `write_files`: the folder with its files, whose hashes agree; leave
              them as they are. None for others, and ignored by `RunIO.save`
    """

    tensors: dict[str, Any]
    meta: dict[str, Any] = field(default_factory=dict)
    files: Path | None = None


WriteFiles = Callable[[Path], None]  # writes files of any size below the empty folder that it is given


@dataclass(frozen=True)
class Outcome:
    """How a run ended: `kind` is `finished`, `stopped:<reason>` or `interrupted` (should_stop() obeyed, after a save).

    `summary` (JSON-able scalars, e.g. parameters of the model that really ran) goes into result.json and MLflow tags.
    """

    kind: str
    summary: dict[str, Any] = field(default_factory=dict)


class RunIO(Protocol):
    """What a trainer may do to the world. Steps are whole numbers >= 0, in rising order; step 0 is before training.

    Everything of steps <= s must be logged before `save(s, ...)`: a checkpoint at s makes those steps durable.
    """

    cache: Path  # shared between runs, e.g. for base models; content-addressed by the trainer

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Record what this attempt starts from, e.g. `{"base_sha256": ...}`; call it before `restore` and `log`.

        The facts (JSON-able scalars) go into the attempt's attempt.json at once, and into the summary of the outcome.
        RunError when an earlier attempt of this run that has a checkpoint recorded another value under the same name:
        two attempts that start from different things must not become one history.
        """

    def status(self, text: str) -> None:
        """Say in a few words what the run is doing before its first event, e.g. "starting Ray".

        `plat sweep` and `plat run` show the newest one until there is an event. It is no part of what is recorded.
        """

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Record metrics of one step. Non-finite values are kept as they are."""

    def table(self, name: str, step: int, data: Any) -> None:
        """Record JSON-able data under a name, e.g. the P x G reward matrix."""

    def save(self, step: int, state: State, *, peak: bool = False, write_files: WriteFiles | None = None) -> None:
        """Write a durable checkpoint; the last two and the newest one marked `peak` are kept.

        write_files   for what is too large to pass through memory: writes files, from whatever processes, below the
                      empty folder that it is given, and returns when they are complete. Links are refused
        """

    def artifact(self, name: str, write_files: WriteFiles) -> None:
        """Keep files as an artifact of the run, e.g. the final model; an earlier one of this attempt is replaced.

        write_files   as for `save`. The summary of the outcome then has a hash of all files under `artifact/<name>`
        """

    def restore(self) -> tuple[int, State] | None:
        """The newest valid checkpoint of any attempt as (step, state), or None at the first start."""

    def load_peak(self) -> tuple[int, State] | None:
        """The newest valid checkpoint marked `peak`, or None."""

    def should_stop(self) -> bool:
        """True when the platform wants the process back: save, then return Outcome("interrupted")."""


Train = Callable[[Any, RunIO], Outcome]
HEADLINE = "val/success"  # of a trainer that names no other
RETRIEVAL = "mi/first_turn/retrieval_acc"  # of a trainer that measures whether thoughts depend on their prompts


def train_iterations(config: Mapping[str, Any]) -> int | None:
    """`train.iterations` of a plain config; None where there is no such whole number."""
    train = config.get("train")
    value = train.get("iterations") if isinstance(train, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class TrainerSpec:
    """A trainer as the platform sees it. Importing the module that defines one must not import torch.

    name              as in the experiment file (`trainer: embedded`)
    version           semantic version, part of every run's identity: bump it when results change
    config_type       dataclass, the typed schema of a run's config (OmegaConf structured config)
    load              () -> train(config: config_type instance, io) -> Outcome; heavy imports happen here
    conf              module with Hydra groups (`plat.conf`), or None: the dataclass's defaults are the whole config
    operational_keys  dotted keys (or prefixes) of the config that never change results; left out of the identity
    legacy            dotted key -> the value meaning "as before this option existed"; left out of the identity if equal
    validate          config -> normalised config; raises SpecError (what, mend; `where` may name a dotted key) for
                      combinations that cannot run. Parts of the config are shared between runs: change nothing in
                      place, return the same object when there is nothing to normalise, else a `dataclasses.replace`
    resources         config -> Resources, or a mapping of the same names, e.g. {"threads": 4, "gpus": 1}: what a run of
                      this config needs (a larger model may need more)
    fingerprint       config -> extra facts that are part of the identity (e.g. the content of the base model)
    prepare           None, or (config) -> None (nothing to wait for) or (key, title): work shared between runs (e.g.
                      building a base model), done once per key, before the runs that need it; `load_prepare()` gives an
                      idempotent (config, cache: Path) -> None, which keeps its result at cache/<kind>/<key>
    load_evaluate     None, or () -> evaluate(config, state, cache: Path, options: Mapping) -> dict, for `plat eval`;
                      SpecError for options it does not know
    preload           modules to import once in the worker server
    stall_after       seconds without an event (a metric or a table) after which a run is ended as stalled. Longer than
                      anything that a run does between two events: its start, an iteration, a checkpoint
    less_memory       None, or config -> the config of the same run that needs less memory at once, e.g. with half the
                      micro-batch, None when it cannot be made smaller. Only operational keys may change. A run that ran
                      out of memory is tried again with it
    load_check        None, or () -> check(config): SpecError for a config that cannot run, where finding out takes
                      seconds. It is asked before anything is submitted, and by `plat plan`; `validate`, which is asked
                      whenever a file is read, must be quick
    check_machine     None, or config -> None: SpecError for a config that this machine is too small for. It is asked
                      where runs are to be executed here, and must be quick; a cluster judges by its own nodes
    idle_keys         plain config (as in config.yaml) -> the dotted keys that have no effect in it, with the reasons.
                      Overrides of such keys are not taken, so that they make no new run; a warning names them
    code              what its code is called where it is no installed release. None: the hash of its files, so that a
                      changed file makes new runs. A text that stays keeps the runs: its author says that what changed
                      alters no result
    disk_bytes        None, or config -> bytes that a run of it keeps on disk; None: as much as earlier runs did
    metrics           names of all metrics that it can log, with wildcards as in `fnmatch` (`grad/q*/task`): a report or
                      a search that asks for another is refused before anything runs. Empty: it does not say
    headline          the metric that live progress, `plat status` and result.json show as success (a share, 0 to 1)
    iterations        plain config (as in config.yaml) -> the number of iterations of the run, None when it does not say
    cost_keys         dotted config keys that a run's time depends on, the most important first: `plat plan` expects a
                      run to take as long as earlier ones that agree in as many of them as possible
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
    check_machine: Callable[[Any], None] | None = None
    idle_keys: Callable[[Mapping[str, Any]], Mapping[str, str]] = lambda config: {}
    code: str | None = None
    disk_bytes: Callable[[Any], int] | None = None
    metrics: tuple[str, ...] = ()
    headline: str = HEADLINE
    iterations: Callable[[Mapping[str, Any]], int | None] = train_iterations
    cost_keys: tuple[str, ...] = ("task.name", "model.name", "algorithm.name", "filter.name")


def find_trainer(name: str) -> TrainerSpec:
    """The trainer published under this name, or, where imports are allowed, the one at `module:ATTRIBUTE`.

    SpecError when there is none, or when imports are not allowed (see `plat.trainer.plugins.imports_allowed`): reading
    an experiment file of somebody else must not run code that nobody has installed as a plug-in.
    """
    if ":" in name:
        return _import_trainer(name)
    trainers = published("plat.trainers")
    if name not in trainers:
        raise SpecError(f"unknown trainer {name!r}", mend=mend(name, trainers, "one of"))
    return _checked(load_plugin("plat.trainers", name), name)


def _import_trainer(place: str) -> TrainerSpec:
    """A trainer that no installed package publishes: `package.module:ATTRIBUTE`."""
    from importlib import import_module

    if not imports_allowed():
        raise SpecError(
            f"the trainer {place!r} is not published by an installed package, and importing it would run its code",
            mend=f"if you trust it, add --allow-import (or set {ALLOW_IMPORT}=1); "
            "or publish it as an entry point of plat.trainers",
        )
    name, _, attribute = place.partition(":")
    title = f"cannot load the trainer {place!r}"
    try:
        with user_code(title):
            module = import_module(name)
    except PluginError as error:
        missing = isinstance(error.__cause__, ModuleNotFoundError) and name.startswith(str(error.__cause__.name))
        if error.where is None or missing:  # nothing was imported: the name is wrong, not the code
            error.where, error.mend = None, _importable(name)
        raise
    if not hasattr(module, attribute):
        specs = [key for key, value in vars(module).items() if isinstance(value, TrainerSpec)]
        raise SpecError(
            f"{title}: the module {name!r} has no {attribute!r}", mend=mend(attribute, specs, "its trainers")
        )
    return _checked(getattr(module, attribute), place)


def _importable(module: str) -> str:
    """How to mend the name of a module that cannot be found."""
    near = nearest(module.partition(".")[0], published("plat.trainers"))
    hint = "package.module:ATTRIBUTE, importable from here"
    return f"did you mean {near!r}? Or {hint}" if near else hint


def _checked(spec: Any, name: str) -> TrainerSpec:
    if not isinstance(spec, TrainerSpec):
        raise SpecError(f"{name!r} is a {type(spec).__name__}, not a TrainerSpec", mend="name a TrainerSpec")
    if wrong := wrong_field(spec):
        raise PluginError(
            f"the TrainerSpec of {name!r} is wrong: {wrong}",
            where=definition_of(spec.load) if callable(spec.load) else None,
            mend="correct it; plat.trainer.api.TrainerSpec explains every field",
        )
    return spec
