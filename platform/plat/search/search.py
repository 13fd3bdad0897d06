"""A search: what varies, what is measured, and the runs of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.search.search_settings import Chosen, Objective
from plat.search.space import Parameter
from plat.spec.composition.trainer_calls import iterations_of
from plat.spec.expansion.experiment import Experiment
from plat.spec.expansion.run import Run, RunMaker
from plat.spec.reading.overrides import Assignment


@dataclass(frozen=True)
class Search:
    """One study: what is searched, and the runs of a trial.

    name     unique in a home: the file's name, the pruner if there are several, a hash of the overrides
    trials   number of trials, failed and pruned ones included
    budget   iterations of training over all trials after which no trial begins; None: no limit
    seeds    seeds of the runs of every trial; `confirm`: those of the runs that confirm the winner
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

    @cached_property
    def maker(self) -> RunMaker:
        return RunMaker(self.base, self.line, folder=self.path.parent)

    def runs_of(self, params: Mapping[str, Any], seeds: Sequence[int]) -> list[Run]:
        """Return the runs of one point of the space, one for each seed. Raises SpecError if they cannot be made."""
        point = [parameter.overrides(params[name]) for name, parameter in self.space.items()]
        runs = []
        for seed in seeds:
            cell = [*point, (Assignment("seed", seed, "seeds", of_axis=True),)]
            runs.append(self.maker.make({**params, "seed": seed}, cell, str(self.path)))
        return runs

    @cached_property
    def first_run(self) -> Run:
        """Run of the first corner of the space. It represents what all runs of the search have in common."""
        return self.runs_of(self.first_corner, self.seeds[:1])[0]

    @property
    def first_corner(self) -> dict[str, Any]:
        """Parameter name -> the first value to check: the low end of a range, or the first option of a choice."""
        return {name: parameter.corners()[0] for name, parameter in self.space.items()}

    def corner_runs(self) -> list[Run]:
        """Return the runs that are checked before a search, in place of the whole space.

        The first run has every parameter at its first value: the low end of a range, or the first option of a choice.
        If there are `confirm` seeds, a second run has these values and the first `confirm` seed. Then each high end of
        a range and each further option of a choice has one run, with all other parameters at their first value.
        Raises SpecError if a run cannot be made.
        """
        first = self.first_corner
        runs = self.runs_of(first, [*self.seeds[:1], *self.confirm[:1]])
        for name, parameter in self.space.items():
            for value in parameter.corners()[1:]:
                try:
                    runs += self.runs_of(first | {name: value}, self.seeds[:1])
                except SpecError as error:
                    error.where = error.where or parameter.where
                    raise
        return runs

    @property
    def iterations(self) -> int:
        """Iterations of one run, as its trainer reports them; 1 if it does not."""
        return iterations_of(self.first_run.trainer, self.first_run.config) or 1

    def question(self) -> dict[str, Any]:
        """Return what must not change within a study, to compare it with a stored study of the same name."""
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
        """Return the search as an Experiment of these runs, so that the store has them under its name and title."""
        scale = str(self.first_run.config.get("scale", self.first_run.trainer))
        return Experiment(
            name=self.name,
            path=self.path,
            title=self.title,
            paper=self.paper,
            source=self.source,
            report=[{"builder": "trials"}],  # `plat tune` writes it; there is no builder of this name
            claims=[],
            axes={},
            runs=runs,
            paper_data={},
            scale=scale,
            overrides=self.overrides,
            is_search=True,
        )
