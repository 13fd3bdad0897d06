"""The settings of a search, as a file or the command line gives them: objectives, sampler, pruner, seeds, numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from plat.errors import SpecError
from plat.spec.leaf import show
from plat.spec.overrides import axis_text, is_sweep, to_plain, values_of
from plat.suggest import mend

OF = ("last", "best", "mean")
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
    "retrieval": {"near_chance": 0.1, "fall": 0.1, "entropy": 0.5, "patience": 2},
}


@dataclass(frozen=True)
class Objective:
    """A metric to maximize or minimize; `of` is its last, best or mean value in a run. A trial has the mean over seeds.

    The metric `success` is the one that the trainer names as its headline.
    """

    metric: str
    maximize: bool
    of: str
    where: str

    @property
    def direction(self) -> Literal["maximize", "minimize"]:
        return "maximize" if self.maximize else "minimize"

    def __str__(self) -> str:
        return f"{self.direction} {self.metric} ({self.of})"


@dataclass(frozen=True)
class Chosen:
    """A sampler or a pruner by name, with every option of it."""

    name: str
    options: Mapping[str, Any]

    def __str__(self) -> str:
        given = ", ".join(f"{key} {value}" for key, value in self.options.items())
        return f"{self.name} ({given})" if given else self.name


def read_objectives(value: Any, where: str) -> tuple[Objective, ...]:
    """The `objectives`: a list of {maximize: METRIC} or {minimize: METRIC}, with `of` last, best or mean."""
    example = "write `objectives: [{maximize: success}]`, or {minimize: time/step, of: mean}"
    entries = value if isinstance(value, list) else [value]
    if value is None or not entries:
        raise SpecError("the search has no objectives", where=where, mend=example)
    objectives = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise SpecError(f"an objective is a mapping, not {show(entry)}", where=where, mend=example)
        for key in entry:
            if key not in ("maximize", "minimize", "of"):
                known = mend(key, ("maximize", "minimize", "of"), "keys")
                raise SpecError(f"objectives: unknown key {key!r}", where=where, mend=known)
        metrics = [entry[key] for key in ("maximize", "minimize") if key in entry]
        if len(metrics) != 1 or not isinstance(metrics[0], str):
            raise SpecError("an objective names one metric to maximize or minimize", where=where, mend=example)
        of = entry.get("of", "last")
        if of not in OF:
            raise SpecError(f"objectives: there is no {show(of)} of a run", where=where, mend=mend(of, OF, "one of"))
        objectives.append(Objective(metrics[0], "maximize" in entry, of, where))
    return tuple(objectives)


def read_chosen(kind: str, value: Any, where: str) -> Chosen:
    """A sampler or pruner (`kind`): a name, or {name: NAME, option: value}."""
    known = SAMPLERS if kind == "sampler" else PRUNERS
    given = value if isinstance(value, dict) else {"name": "none" if value is None else value}
    name = given.get("name")
    if name not in known:
        raise SpecError(f"unknown {kind} {show(name)}", where=where, mend=mend(name, known, "one of"))
    options = dict(known[name])
    for key, option in given.items():
        if key == "name":
            continue
        if key not in options:
            names = mend(key, options, "options") if options else "it has none"
            raise SpecError(f"{kind}: {name} has no option {key!r}", where=where, mend=names)
        number = int if isinstance(options[key], int) else (int, float)
        if not isinstance(option, number) or isinstance(option, bool) or option < 0:
            wanted = "a whole number" if number is int else "a number"
            raise SpecError(f"{kind}: {key} is {show(option)}", where=where, mend=f"give {wanted} that is not negative")
        options[key] = option
    return Chosen(name, options)


def read_number(key: str, value: Any, where: str) -> int | None:
    """A whole number above 0, or None where none is given."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise SpecError(f"{key} is {show(value)}", where=where, mend=f"write `{key}: 20`, a whole number above 0")
    return value


def read_seeds(key: str, value: Any, where: str) -> tuple[int, ...]:
    """Seeds, as a list or in the words of an axis (`range(3)`). `seeds` are one at least, `confirm` may be none."""
    if isinstance(value, str):
        value = axis_text(key, value, where)
    elif is_sweep(value):
        value = [to_plain(seed, where) for seed in values_of(value, where)]
    seeds = value if isinstance(value, list) else [value]
    are_whole = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in seeds)
    if not are_whole or len(set(seeds)) < len(seeds) or (not seeds and key == "seeds"):
        raise SpecError(
            f"{key} are different whole numbers, not {show(value)}",
            where=where,
            mend=f"write `{key}: range(3)` or `{key}: [0, 1, 2]`",
        )
    return tuple(seeds)
