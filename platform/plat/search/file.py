"""A search file: the header and `base` of an experiment file, and what to search, how, and for how long.

    searches = read_searches("sweeps/keep_rate.yaml", ["scale=smoke", "trials=4"])

One file gives one search, or one for each of its pruners where `pruner` is a list: they are compared at equal budget.
`trials`, `budget`, `seeds`, `confirm`, `sampler` and `pruner` may be given on the command line. Everything wrong raises
SpecError with its place; nothing is written.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.search.search import Search
from plat.search.settings import Chosen, read_chosen, read_number, read_objectives, read_seeds
from plat.search.space import read_space
from plat.spec.experiment import NAME
from plat.spec.identity import canonical
from plat.spec.matrix_reader import assignments
from plat.spec.metrics import check_metric
from plat.spec.overrides import CommandLine, is_sweep, parse_overrides
from plat.spec.runs import Run
from plat.spec.yaml_reader import Document, read
from plat.suggest import mend

HEADER = ("title", "paper", "source", "base")
SETTINGS = ("objectives", "sampler", "pruner", "trials", "budget", "seeds", "confirm")
KEYS = (*HEADER, "space", *SETTINGS)
CONTINUES = ("trials", "budget", "confirm")  # changing these goes on with the same study
DEFAULT_TRIALS = 20


def is_search(path: Path) -> bool:
    """Whether a file is a search file: it has a `space` or `objectives`. False for one that cannot be read."""
    try:
        data = read(path).data
    except SpecError:
        return False
    return isinstance(data, dict) and ("space" in data or "objectives" in data)


def read_searches(path: str | Path, overrides: Sequence[str] = ()) -> list[Search]:
    """The searches of one file, every corner of their space checked; SpecError for anything wrong."""
    document = read(path)
    _check_keys(document)
    file = _SearchFile(document, parse_overrides(tuple(overrides)))
    pruners = file.pruners()
    searches = [file.search(pruner, len(pruners) > 1, tuple(overrides)) for pruner in pruners]
    _check_objectives(searches[0], searches[0].corner_runs())
    return searches


def _check_objectives(search: Search, corner_runs: Sequence[Run]) -> None:
    """SpecError for an objective that none of these runs would log."""
    for objective in search.objectives:
        try:
            check_metric(objective.metric, corner_runs)
        except SpecError as error:
            error.where = objective.where
            raise


def _check_keys(document: Document) -> None:
    if not isinstance(document.data, dict):
        raise SpecError("a search file is a mapping", where=document.where(), mend=f"write keys: {', '.join(KEYS)}")
    if "matrix" in document.data and "space" not in document.data:
        raise SpecError(
            "this is an experiment file: it has a matrix, and no `space` to search",
            where=document.where_key("matrix"),
            mend=f"plat sweep {document.path}",
        )
    for key in document.data:
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


class _SearchFile:
    """A search file under a command line, which may replace some of its settings.

    space    what is searched over
    line     the overrides of the command line that are for runs
    """

    def __init__(self, document: Document, line: CommandLine) -> None:
        self.document = document
        self.space = read_space(document)
        self.line = tuple(assignment for assignment in line.assignments if assignment.key not in SETTINGS)
        self._replaced = {a.key: (a.value, a.where) for a in line.assignments if a.key in SETTINGS}
        self._check_line(line)

    def search(self, pruner: Chosen, one_of_several: bool, overrides: tuple[str, ...]) -> Search:
        """The search with this pruner. `one_of_several`: the file has further pruners, so the name says which it is."""
        objectives = read_objectives(*self._setting("objectives"))
        if len(objectives) > 1 and pruner.name != "none":
            raise SpecError(
                "a search with several objectives cannot give up trials early",
                where=self._setting("pruner")[1],
                mend="write `pruner: none`, or leave one objective",
            )
        sampler = read_chosen("sampler", *self._setting("sampler", "tpe"))
        seeds, confirm = self._seeds()
        return Search(
            name=self._name(pruner, one_of_several),
            path=self.document.path,
            title=self._title(),
            paper=self._text("paper"),
            source=self._text("source"),
            space=self.space,
            objectives=objectives,
            sampler=sampler,
            pruner=pruner,
            trials=self._trials(sampler),
            budget=read_number("budget", *self._setting("budget")),
            seeds=seeds,
            confirm=confirm,
            base=tuple(assignments(self.document, ("base",))),
            line=self.line,
            overrides=overrides,
        )

    def pruners(self) -> list[Chosen]:
        """The pruners of the file, each of which gives a search; SpecError for none, and for one named twice."""
        value, where = self._setting("pruner")
        values = value if isinstance(value, list) else [value]
        chosen = [read_chosen("pruner", entry, where) for entry in values]
        names = [pruner.name for pruner in chosen]
        if not names or len(set(names)) < len(names):
            raise SpecError("pruner: the list is empty, or names one twice", where=where, mend="name each pruner once")
        return chosen

    def _check_line(self, line: CommandLine) -> None:
        """SpecError for an override of the matrix, for one with several values, and for one of what is searched."""
        for _, where in line.axes.values():
            raise SpecError("a search has no matrix", where=where, mend="override a key: key=value")
        for assignment in self.line:
            if is_sweep(assignment.value):
                mending = "list the values in the file's `space`"
                raise SpecError(f"{assignment.key} takes one value", where=assignment.where, mend=mending)
            if assignment.key in self.space:
                raise SpecError(
                    f"{assignment.key} is searched over",
                    where=assignment.where,
                    mend=f"take it out of the `space` in {self.document.path.name} to fix its value",
                )

    def _name(self, pruner: Chosen, one_of_several: bool) -> str:
        """The file's name, the pruner where there are several, and a hash of overrides that ask another question."""
        asked: dict[str, Any] = {assignment.key: assignment.value for assignment in self.line}
        asked |= {key: str(value) for key, (value, _) in self._replaced.items() if key not in CONTINUES}
        mark = f"@{hashlib.sha256(canonical(asked).encode()).hexdigest()[:8]}" if asked else ""
        return self.document.path.stem + (f".{pruner.name}" if one_of_several else "") + mark

    def _setting(self, key: str, default: Any = None) -> tuple[Any, str]:
        """The value of a setting, `default` where there is none, and where it is given."""
        value, where = self._replaced.get(key) or (self.document.data.get(key), self.document.where(key))
        return default if value is None else value, where

    def _seeds(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The seeds of every trial, and those that confirm the winner."""
        seeds = read_seeds("seeds", *self._setting("seeds", [0]))
        confirm = read_seeds("confirm", *self._setting("confirm", []))
        shared = sorted(set(seeds) & set(confirm))
        if shared:
            raise SpecError(
                f"the seed {shared[0]} confirms and is searched with: then it confirms nothing",
                where=self._setting("confirm")[1],
                mend="give `confirm` seeds that `seeds` does not have",
            )
        return seeds, confirm

    def _trials(self, sampler: Chosen) -> int:
        """How many trials there are; on a grid no more than it has points."""
        trials = read_number("trials", *self._setting("trials"))
        if sampler.name != "grid":
            return trials or DEFAULT_TRIALS
        points = math.prod(len(parameter.grid()) for parameter in self.space.values())
        return min(trials or points, points)

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
