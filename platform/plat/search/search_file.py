"""Read search files: the header and `base` of an experiment file, and what to search, how, and for how long.

    searches = read_searches("sweeps/keep_rate.yaml", ["scale=smoke", "trials=4"])

A file gives one search for each of its pruners, to compare them at equal budget. The command line may override
`trials`, `budget`, `seeds`, `confirm`, `sampler` and `pruner`. Mistakes raise SpecError with their place. Writes
nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.search.search import Search
from plat.search.search_settings import Chosen, read_chosen, read_number, read_objectives, read_seeds
from plat.search.space import read_space
from plat.spec.expansion.experiment import check_metric
from plat.spec.identity.run_identity import canonical
from plat.spec.reading.experiment_file import check_name, read_text, read_title
from plat.spec.reading.matrix_reader import assignments
from plat.spec.reading.overrides import CommandLine, is_sweep, parse_overrides
from plat.spec.reading.yaml_reader import Document, read
from plat.suggest import suggest
from plat.words.metric_names import SUCCESS

HEADER = ("title", "paper", "source", "base")
SETTINGS = ("objectives", "sampler", "pruner", "trials", "budget", "seeds", "confirm")
KEYS = (*HEADER, "space", *SETTINGS)
CONTINUES = ("trials", "budget", "confirm")  # changing these continues the same study
DEFAULT_TRIALS = 20


def read_searches(path: str | Path, overrides: Sequence[str] = ()) -> list[Search]:
    """Return the searches of one file, after checking every corner of their space. Raises SpecError for any mistake."""
    document = read(path)
    _check_keys(document)
    file = _SearchFile(document, parse_overrides(tuple(overrides)))
    pruners = file.pruners()
    searches = [file.search(pruner, len(pruners) > 1, tuple(overrides)) for pruner in pruners]
    corner_runs = searches[0].corner_runs()
    for objective in searches[0].objectives:
        try:
            check_metric(objective.metric, corner_runs)
        except SpecError as error:
            error.where = objective.where
            raise
    return searches


def _check_keys(document: Document) -> None:
    if not isinstance(document.data, dict):
        raise SpecError("a search file must be a mapping", where=document.where(), fix=f"write keys: {', '.join(KEYS)}")
    if "matrix" in document.data and "space" not in document.data:
        what = "this is an experiment file: it has a matrix, and no `space` to search"
        raise SpecError(what, where=document.where_key("matrix"), fix=f"plat sweep {document.path}")
    for key in document.data:
        if key == "matrix":
            fix = "what varies is listed in `space`, and `seeds` are those of every trial"
            raise SpecError("a search has no matrix", where=document.where_key(key), fix=fix)
        if key not in KEYS:
            raise SpecError(f"unknown key {key!r}", where=document.where_key(key), fix=suggest(key, KEYS, "keys"))
    check_name(document)


def _usual_objective(base: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the objective of a file without `objectives`: its `script.metric`, else its `script.success`."""
    if metric := base.get("script.metric"):
        return {str(base.get("script.goal", "minimize")): metric}
    return {"maximize": SUCCESS} if base.get("script.success") else None


class _SearchFile:
    """A search file with the overrides of a command line; `line` holds those that apply to runs."""

    def __init__(self, document: Document, line: CommandLine) -> None:
        self.document = document
        self.space = read_space(document)
        self.line = tuple(assignment for assignment in line.assignments if assignment.key not in SETTINGS)
        self._replaced = {a.key: (a.value, a.where) for a in line.assignments if a.key in SETTINGS}
        self._check_line(line)

    def search(self, pruner: Chosen, one_of_several: bool, overrides: tuple[str, ...]) -> Search:
        """Return the search that the file and its command line describe, with this pruner.

        one_of_several  True if the file has several pruners; the pruner is then part of the study's name
        overrides       the command line as typed, which is recorded; the constructor's `line` takes effect

        Raises SpecError for an invalid setting, or for several objectives with a pruner other than `none`.
        """
        base = {one.key: one.value for one in assignments(self.document, ("base",))}
        objectives = read_objectives(*self._setting("objectives", _usual_objective(base)))
        if len(objectives) > 1 and pruner.name != "none":
            what, fix = "a search with several objectives cannot give up trials early", "leave one objective"
            raise SpecError(what, where=self._setting("pruner")[1], fix=f"write `pruner: none`, or {fix}")
        sampler = read_chosen("sampler", *self._setting("sampler", "tpe"))
        seeds, confirm = self._seeds()
        return Search(
            name=self._name(pruner, one_of_several),
            path=self.document.path,
            title=read_title(self.document, "what is searched for"),
            paper=read_text(self.document, "paper"),
            source=read_text(self.document, "source"),
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
        """Return the pruners of the file, one search each. Raises SpecError for an empty list or a repeated name."""
        value, where = self._setting("pruner")
        values = value if isinstance(value, list) else [value]
        chosen = [read_chosen("pruner", entry, where) for entry in values]
        names = [pruner.name for pruner in chosen]
        if not names or len(set(names)) < len(names):
            raise SpecError("pruner: the list is empty, or names one twice", where=where, fix="name each pruner once")
        return chosen

    def _check_line(self, line: CommandLine) -> None:
        """Raise SpecError for an override of the matrix, one with several values, or one of a searched parameter."""
        for _, where in line.axes.values():
            raise SpecError("a search has no matrix", where=where, fix="override a key: key=value")
        for assignment in self.line:
            if is_sweep(assignment.value):
                fixing = "list the values in the file's `space`"
                raise SpecError(f"{assignment.key} takes one value", where=assignment.where, fix=fixing)
            if assignment.key in self.space:
                fix = f"take it out of the `space` in {self.document.path.name} to fix its value"
                raise SpecError(f"{assignment.key} is searched over", where=assignment.where, fix=fix)

    def _name(self, pruner: Chosen, one_of_several: bool) -> str:
        """Return the file's name, the pruner if there are several, and a hash of overrides that change the question."""
        asked: dict[str, Any] = {assignment.key: assignment.value for assignment in self.line}
        asked |= {key: str(value) for key, (value, _) in self._replaced.items() if key not in CONTINUES}
        mark = f"@{hashlib.sha256(canonical(asked).encode()).hexdigest()[:8]}" if asked else ""
        return self.document.path.stem + (f".{pruner.name}" if one_of_several else "") + mark

    def _setting(self, key: str, default: Any = None) -> tuple[Any, str]:
        """Return the value of a setting (`default` if it is absent) and its place."""
        value, where = self._replaced.get(key) or (self.document.data.get(key), self.document.where(key))
        return default if value is None else value, where

    def _seeds(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the seeds of every trial and those that confirm the winner. Raises SpecError if they share one."""
        seeds = read_seeds("seeds", *self._setting("seeds", [0]))
        confirm = read_seeds("confirm", *self._setting("confirm", []))
        shared = sorted(set(seeds) & set(confirm))
        if shared:
            what = f"the seed {shared[0]} is in `seeds` and in `confirm`: seeds of the search confirm nothing"
            fix = "give `confirm` seeds that `seeds` does not have"
            raise SpecError(what, where=self._setting("confirm")[1], fix=fix)
        return seeds, confirm

    def _trials(self, sampler: Chosen) -> int:
        """Return the number of trials; on a grid at most the number of its points."""
        trials = read_number("trials", *self._setting("trials"))
        if sampler.name != "grid":
            return trials or DEFAULT_TRIALS
        points = math.prod(len(parameter.grid()) for parameter in self.space.values())
        return min(trials or points, points)
