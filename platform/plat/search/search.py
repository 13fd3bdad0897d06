"""A search: what is varied, what is measured, and the runs of a trial."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.search.settings import Chosen, Objective
from plat.search.space import Parameter
from plat.spec.experiment import Experiment
from plat.spec.overrides import Assignment
from plat.spec.runs import Run, RunMaker
from plat.spec.trainer_calls import iterations_of


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

    @cached_property
    def maker(self) -> RunMaker:
        return RunMaker(self.base, self.line)

    def runs_of(self, params: Mapping[str, Any], seeds: Sequence[int]) -> list[Run]:
        """The runs of one point of the space, one for each seed; SpecError when they cannot be made."""
        point = [parameter.overrides(params[name]) for name, parameter in self.space.items()]
        return [
            self.maker.make(
                {**params, "seed": seed},
                [*point, (Assignment("seed", seed, "seeds", of_axis=True),)],
                str(self.path),
            )
            for seed in seeds
        ]

    @cached_property
    def first_run(self) -> Run:
        """The run of the first corner of the space: it says what all of them have in common."""
        return self.runs_of(self.first_corner, self.seeds[:1])[0]

    @property
    def first_corner(self) -> dict[str, Any]:
        return {name: parameter.corners()[0] for name, parameter in self.space.items()}

    def corner_runs(self) -> list[Run]:
        """A run at every end of every parameter, the others at their first; SpecError when one cannot be made.

        They stand for the whole space where it is checked, so that most mistakes are seen before the search begins.
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
        """Of one run, as its trainer says; 1 where it does not."""
        return iterations_of(self.first_run.trainer, self.first_run.config) or 1

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
            is_search=True,
        )
