"""The settings of a search from a file or the command line: objectives, sampler, pruner, seeds, numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from plat.errors import SpecError
from plat.plugins.loading import published
from plat.search.run_pruner import PLUGINS, run_pruner
from plat.search.space import Parameter
from plat.spec.composition.leaf import show
from plat.spec.reading.overrides import axis_text, is_sweep, to_plain, values_of
from plat.suggest import suggest

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

OF = ("last", "best", "mean")
KEYS = ("maximize", "minimize", "of", "diverged")  # of an objective
SAMPLERS: dict[str, dict[str, Any]] = {
    "tpe": {"seed": 0, "startup": 10},
    "random": {"seed": 0},
    "grid": {"seed": 0},
    "nsga2": {"seed": 0, "population": 20},
}
PRUNERS: dict[str, dict[str, Any]] = {
    "none": {},
    "median": {"startup": 5, "warmup": 0},
    "successive_halving": {"min_steps": 1, "reduction": 3},
    "asha": {"min_steps": 1, "reduction": 4},
}


@dataclass(frozen=True)
class Objective:
    """A metric to maximize or minimize. The metric `success` means the trainer's headline metric.

    `of`: the value of a run is the "last", "best" or "mean" one of its curve. A trial has the mean over its seeds.
    `diverged`: a trial of which a run has no finite value is a "fail", or counts as the "worst" there can be.
    """

    metric: str
    maximize: bool
    of: str
    where: str
    diverged: str = "fail"

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        return "maximize" if self.maximize else "minimize"

    def __str__(self) -> str:
        return f"{self.direction} {self.metric} ({self.of}{', diverged: worst' if self.diverged == 'worst' else ''})"


@dataclass(frozen=True)
class Chosen:
    """A sampler or pruner by name, with all its options."""

    name: str
    options: Mapping[str, Any]

    def __str__(self) -> str:
        given = ", ".join(f"{key} {value}" for key, value in self.options.items())
        return f"{self.name} ({given})" if given else self.name


def read_objectives(value: Any, where: str) -> tuple[Objective, ...]:
    """Return the `objectives`: a list of {maximize: METRIC} or {minimize: METRIC}, with more KEYS.

    Raises SpecError if there is none, or for another key or value.
    """
    example = "write `objectives: [{maximize: success}]`, or {minimize: time/step, of: mean}"
    entries = value if isinstance(value, list) else [value]
    if value is None or not entries:
        raise SpecError("the search has no objectives", where=where, fix=example)
    objectives = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise SpecError(f"an objective must be a mapping, not {show(entry)}", where=where, fix=example)
        for key in entry:
            if key not in KEYS:
                known = suggest(key, KEYS, "keys")
                raise SpecError(f"objectives: unknown key {key!r}", where=where, fix=known)
        metrics = [entry[key] for key in ("maximize", "minimize") if key in entry]
        if len(metrics) != 1 or not isinstance(metrics[0], str):
            raise SpecError("an objective must name one metric to maximize or minimize", where=where, fix=example)
        of, diverged = entry.get("of", "last"), entry.get("diverged", "fail")
        if of not in OF:
            raise SpecError(f"objectives: there is no {show(of)} of a run", where=where, fix=suggest(of, OF, "one of"))
        if diverged not in ("fail", "worst"):
            raise SpecError(f"objectives: diverged is {show(diverged)}", where=where, fix="write `fail` or `worst`")
        objectives.append(Objective(metrics[0], "maximize" in entry, of, where, diverged))
    return tuple(objectives)


def read_chosen(kind: str, value: Any, where: str) -> Chosen:
    """Return a "sampler" or "pruner" (`kind`) from a name or {name: NAME, option: value}; None is the pruner `none`.

    Options that are left out have their defaults. Raises SpecError for an unknown name or option and a wrong value.
    """
    known: Mapping[str, Any] = SAMPLERS if kind == "sampler" else {**PRUNERS, **published(PLUGINS)}
    given = value if isinstance(value, dict) else {"name": "none" if value is None else value}
    name = given.get("name")
    if not isinstance(name, str) or name not in known:
        raise SpecError(f"unknown {kind} {show(name)}", where=where, fix=suggest(name, known, "one of"))
    plugin = run_pruner(name) if kind == "pruner" and name not in PRUNERS else None
    options = dict(known[name] if plugin is None else plugin.options)
    for key, option in given.items():
        if key == "name":
            continue
        if key not in options:
            names = suggest(key, options, "options") if options else "it has none"
            raise SpecError(f"{kind}: {name} has no option {key!r}", where=where, fix=names)
        number = int if isinstance(options[key], int) else (int, float)
        if not isinstance(option, number) or isinstance(option, bool) or option < 0:
            wanted = "a whole number" if number is int else "a number"
            raise SpecError(f"{kind}: {key} is {show(option)}", where=where, fix=f"give {wanted} that is not negative")
        options[key] = option
    return Chosen(name, options)


def read_number(key: str, value: Any, where: str) -> int | None:
    """Return a whole number above 0, or None if none is given. Raises SpecError for any other value."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SpecError(f"{key} is {show(value)}", where=where, fix=f"write `{key}: 20`, a whole number above 0")
    return value


def read_seeds(key: str, value: Any, where: str) -> tuple[int, ...]:
    """Return seeds from one number, a list or an axis text (`range(3)`).

    Raises SpecError for a repeated seed, for a value that is no whole number or is negative, and for an empty list if
    `key` is "seeds".
    """
    if isinstance(value, str):
        value = axis_text(key, value, where)
    elif is_sweep(value):
        value = [to_plain(seed, where) for seed in values_of(value, where)]
    seeds = value if isinstance(value, list) else [value]
    are_whole = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in seeds)
    if not are_whole or len(set(seeds)) < len(seeds) or (not seeds and key == "seeds"):
        what = f"{key} must be different whole numbers of at least 0, not {show(value)}"
        raise SpecError(what, where=where, fix=f"write `{key}: range(3)` or `{key}: [0, 1, 2]`")
    return tuple(seeds)


def trial_seed(seed: int, number: int) -> int:
    """Return the seed of the sampler of one trial, so that a killed and resumed search suggests the same trials."""
    from numpy.random import SeedSequence

    return int(SeedSequence((seed, number)).generate_state(1)[0])


def make_sampler(chosen: Chosen, space: dict[str, Parameter], number: int) -> BaseSampler:
    """Return the sampler of trial `number`; it depends on the arguments alone. SpecError for a grid without steps."""
    from optuna import samplers

    options = chosen.options
    seed = trial_seed(options["seed"], number)
    if chosen.name == "random":
        return samplers.RandomSampler(seed=seed)
    if chosen.name == "grid":  # the seed orders the grid, so all trials share it
        grid = {name: parameter.grid() for name, parameter in space.items()}
        return samplers.GridSampler(grid, seed=options["seed"])
    if chosen.name == "nsga2":
        return samplers.NSGAIISampler(population_size=options["population"], seed=seed)
    return samplers.TPESampler(n_startup_trials=options["startup"], seed=seed)
