"""A search file: the header and `base` of an experiment file, and what to search, how, and for how long.

    searches = read_searches("sweeps/keep_rate.yaml", ["scale=smoke", "trials=4"])

One file gives one search, or one for each of its pruners where `pruner` is a list: they are compared at equal budget.
`trials`, `budget`, `seeds`, `confirm`, `sampler` and `pruner` may be given on the command line. Everything wrong raises
SpecError with its place; nothing is written.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.search.settings import Chosen, Objective, read_chosen, read_objectives
from plat.search.space import Parameter, read_space
from plat.spec.experiment import NAME, Experiment
from plat.spec.identity import canonical
from plat.spec.leaf import show
from plat.spec.matrix_reader import assignments
from plat.spec.overrides import Assignment, CommandLine, axis_text, is_sweep, parse_overrides, to_plain, values_of
from plat.spec.runs import Run, RunMaker
from plat.spec.yaml_reader import Document, read
from plat.suggest import mend
from plat.trainer.api import find_trainer

HEADER = ("title", "paper", "source", "base")
SETTINGS = ("objectives", "sampler", "pruner", "trials", "budget", "seeds", "confirm")
KEYS = (*HEADER, "space", *SETTINGS)
CONTINUES = ("trials", "budget", "confirm")  # changing these goes on with the same study
DEFAULT_TRIALS = 20


@dataclass(frozen=True)
class Search:
    """One study: what is searched, and the runs of a trial.

    name    of the study, unique in a home: the file's name, a pruner where there are several, a mark of the overrides
    trials  how many trials the study has in the end, whatever becomes of them
    budget  iterations of training after which no trial is begun, those of all trials together; None: no limit
    seeds   of the runs of every trial, in this order; `confirm`: of the runs that confirm the winner
    """

    name: str
    path: Path
    title: str
    paper: str | None
    source: str | None
    space: dict[str, Parameter]
    objectives: tuple[Objective, ...]
    sampler: Chosen
    pruner: Chosen
    trials: int
    budget: int | None
    seeds: tuple[int, ...]
    confirm: tuple[int, ...]
    base: tuple[Assignment, ...]
    line: tuple[Assignment, ...]
    overrides: tuple[str, ...]
    _kept: dict[tuple[str, str], tuple[Assignment, ...]] = field(default_factory=dict)

    @cached_property
    def maker(self) -> RunMaker:
        return RunMaker(self.base, self.line)

    def runs_of(self, params: Mapping[str, Any], seeds: Sequence[int]) -> list[Run]:
        """The runs of one point of the space, one for each seed; SpecError when they cannot be made."""
        cell = [self._overrides(name, params[name]) for name in self.space]
        return [
            self.maker.make({**params, "seed": seed}, [*cell, self._overrides("seed", seed)], str(self.path))
            for seed in seeds
        ]

    def _overrides(self, name: str, value: Any) -> tuple[Assignment, ...]:
        """The overrides of one value. The same object for the same value, for `RunMaker` knows them by identity."""
        key = (name, f"{type(value).__name__}:{value!r}")
        if key not in self._kept:
            seed = (Assignment("seed", value, "seeds", of_axis=True),)
            self._kept[key] = seed if name == "seed" else self.space[name].overrides(value)
        return self._kept[key]

    @cached_property
    def first_run(self) -> Run:
        """The run of the first corner of the space: it says what all of them have in common."""
        return self.runs_of(self.first_corner, self.seeds[:1])[0]

    @property
    def first_corner(self) -> dict[str, Any]:
        return {name: parameter.corners()[0] for name, parameter in self.space.items()}

    @property
    def iterations(self) -> int:
        """Of one run, as its trainer says; 1 where it does not."""
        return find_trainer(self.first_run.trainer).iterations(self.first_run.config) or 1

    def question(self) -> dict[str, Any]:
        """What the study asks, for telling whether a study of this name is the same one."""
        run = self.first_run
        space = {name: str(parameter) for name, parameter in self.space.items()}
        bundles = {
            name: {str(label): [(a.key, a.value) for a in parameter.overrides(label)] for label in parameter.corners()}
            for name, parameter in self.space.items()
        }
        return {
            "space": {"ranges": space, "overrides": bundles},
            "objectives": [str(objective) for objective in self.objectives],
            "sampler": str(self.sampler),
            "pruner": str(self.pruner),
            "seeds": list(self.seeds),
            "runs": run.id,
        }

    def experiment(self, runs: list[Run]) -> Experiment:
        """The search as the store knows files: its name, its title, and the runs it has asked for so far."""
        scale = str(self.first_run.config.get("scale", self.first_run.trainer))
        return Experiment(
            name=self.name,
            path=self.path,
            title=self.title,
            paper=self.paper,
            source=self.source,
            report=[{"builder": "trials"}],  # `plat tune` makes it: no builder of this name is looked for
            claims=[],
            axes={},
            runs=runs,
            paper_data={},
            scale=scale,
            overrides=self.overrides,
        )


def is_search(path: Path) -> bool:
    """Whether a file is a search file: it has a `space`. False for one that cannot be read."""
    try:
        data = read(path).data
    except SpecError:
        return False
    return isinstance(data, dict) and ("space" in data or "objectives" in data)


def read_searches(path: str | Path, overrides: Sequence[str] = ()) -> list[Search]:
    """The searches of one file, every corner of their space checked; SpecError for anything wrong."""
    document = read(path)
    data = document.data
    if not isinstance(data, dict):
        raise SpecError("a search file is a mapping", where=document.where(), mend=f"write keys: {', '.join(KEYS)}")
    for key in data:
        if key == "matrix":
            raise SpecError(
                "a search has no matrix",
                where=document.where_key(key),
                mend="what varies is listed in `space`, and `seeds` are those of every trial",
            )
        if key not in KEYS:
            raise SpecError(f"unknown key {key!r}", where=document.where_key(key), mend=mend(key, KEYS, "keys"))
    if not NAME.fullmatch(document.path.stem):
        raise SpecError(
            f"the file's name {document.path.stem!r} cannot name its results",
            where=str(document.path),
            mend="rename the file: letters, digits, `_`, `-`, `.` and spaces, beginning with a letter, a digit or `_`",
        )
    settings = _Settings(document, parse_overrides(tuple(overrides)))
    pruners = settings.pruners()
    mark = settings.mark()
    searches = []
    for pruner in pruners:
        name = document.path.stem + (f".{pruner.name}" if len(pruners) > 1 else "") + (f"@{mark}" if mark else "")
        searches.append(settings.search(name, pruner, tuple(overrides)))
    _check_corners(searches[0])
    return searches


def _check_corners(search: Search) -> None:
    """Make a run at every end of every parameter, the others at their first, so that most mistakes are seen at once."""
    first = search.first_corner
    search.runs_of(first, [*search.seeds[:1], *search.confirm[:1]])
    for name, parameter in search.space.items():
        for value in parameter.corners()[1:]:
            try:
                search.runs_of(first | {name: value}, search.seeds[:1])
            except SpecError as error:
                error.where = error.where or parameter.where
                raise


class _Settings:
    """The settings of a file, of which the command line may replace some."""

    def __init__(self, document: Document, line: CommandLine) -> None:
        self.document = document
        self.given = {a.key: (a.value, a.where) for a in line.assignments if a.key in SETTINGS}
        self.line = tuple(a for a in line.assignments if a.key not in SETTINGS)
        self.space = read_space(document)
        if line.axes:
            raise SpecError(
                "a search has no matrix", where=next(iter(line.axes.values()))[1], mend="override a key: key=value"
            )
        for assignment in self.line:
            if is_sweep(assignment.value):
                mending = "list the values in the file's `space`"
                raise SpecError(f"{assignment.key} takes one value", where=assignment.where, mend=mending)
            if assignment.key in self.space:
                raise SpecError(
                    f"{assignment.key} is searched over",
                    where=assignment.where,
                    mend=f"take it out of the `space` in {document.path.name} to fix its value",
                )

    def search(self, name: str, pruner: Chosen, overrides: tuple[str, ...]) -> Search:
        seeds, confirm = self._seeds("seeds", [0]), self._seeds("confirm", [])
        shared = sorted(set(seeds) & set(confirm))
        if shared:
            raise SpecError(
                f"the seed {shared[0]} confirms and is searched with: then it confirms nothing",
                where=self._at("confirm")[1],
                mend="give `confirm` seeds that `seeds` does not have",
            )
        objectives = read_objectives(*self._at("objectives"))
        if len(objectives) > 1 and pruner.name != "none":
            raise SpecError(
                "a search with several objectives cannot give up trials early",
                where=self._at("pruner")[1],
                mend="write `pruner: none`, or leave one objective",
            )
        sampler = read_chosen("sampler", *self._sampler())
        return Search(
            name=name,
            path=self.document.path,
            title=self._title(),
            paper=self._text("paper"),
            source=self._text("source"),
            space=self.space,
            objectives=objectives,
            sampler=sampler,
            pruner=pruner,
            trials=self._trials(sampler),
            budget=self._whole("budget", None),
            seeds=seeds,
            confirm=confirm,
            base=tuple(assignments(self.document, ("base",))),
            line=self.line,
            overrides=overrides,
        )

    def pruners(self) -> list[Chosen]:
        value, where = self._at("pruner")
        values = value if isinstance(value, list) else [value]
        chosen = [read_chosen("pruner", entry, where) for entry in values]
        names = [pruner.name for pruner in chosen]
        if not names or len(set(names)) < len(names):
            raise SpecError("pruner: the list is empty, or names one twice", where=where, mend="name each pruner once")
        return chosen

    def mark(self) -> str:
        """What tells this study from that of the file as it is; "" when the command line changes nothing it asks."""
        asked: dict[str, Any] = {a.key: a.value for a in self.line}
        asked |= {key: str(value) for key, (value, _) in self.given.items() if key not in CONTINUES}
        if not asked:
            return ""
        return hashlib.sha256(canonical(asked).encode()).hexdigest()[:8]

    def _at(self, key: str) -> tuple[Any, str]:
        """The value of a setting and where it is given."""
        if key in self.given:
            return self.given[key]
        return self.document.data.get(key), self.document.where(key)

    def _title(self) -> str:
        title = self._text("title")
        if title is None or not title.strip():
            raise SpecError(
                "the file has no title", where=self.document.where("title"), mend="write `title: what is searched for`"
            )
        return title

    def _text(self, key: str) -> str | None:
        value = self.document.data.get(key)
        if isinstance(value, dict | list):
            raise SpecError(f"{key} is text", where=self.document.where(key), mend=f"write `{key}: some words`")
        return None if value is None else str(value)

    def _sampler(self) -> tuple[Any, str]:
        value, where = self._at("sampler")
        return ("tpe" if value is None else value), where

    def _trials(self, sampler: Chosen) -> int:
        limit = None
        if sampler.name == "grid":
            limit = 1
            for parameter in self.space.values():
                limit *= len(parameter.grid())
        trials = self._whole("trials", limit or DEFAULT_TRIALS)
        assert trials is not None
        return trials if limit is None else min(trials, limit)

    def _whole(self, key: str, default: int | None) -> int | None:
        value, where = self._at(key)
        if value is None:
            return default
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise SpecError(f"{key} is {show(value)}", where=where, mend=f"write `{key}: 20`, a whole number above 0")
        return value

    def _seeds(self, key: str, default: list[int]) -> tuple[int, ...]:
        value, where = self._at(key)
        if value is None:
            return tuple(default)
        if isinstance(value, str):
            value = axis_text(key, value, where)
        elif is_sweep(value):
            value = [to_plain(seed, where) for seed in values_of(value, where)]
        seeds = value if isinstance(value, list) else [value]
        whole = all(isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 for seed in seeds)
        if not whole or len(set(seeds)) < len(seeds) or (not seeds and key == "seeds"):
            raise SpecError(
                f"{key} are different whole numbers, not {show(value)}",
                where=where,
                mend=f"write `{key}: range(3)` or `{key}: [0, 1, 2]`",
            )
        return tuple(seeds)
