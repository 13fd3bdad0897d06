"""Optuna's sampler for one trial of a study.

Each trial has a sampler of its own, seeded with the seed of the search and the number of the trial. So a search that
was killed and started again suggests what it would have suggested anyway: there is no state to lose.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plat.search.settings import Chosen
from plat.search.space import Parameter

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler


def trial_seed(seed: int, number: int) -> int:
    """The seed of the sampler of one trial."""
    from numpy.random import SeedSequence

    return int(SeedSequence((seed, number)).generate_state(1)[0])


def make_sampler(chosen: Chosen, space: dict[str, Parameter], number: int) -> BaseSampler:
    """The sampler of the trial with this number."""
    from optuna import samplers

    options = chosen.options
    seed = trial_seed(options["seed"], number)
    if chosen.name == "random":
        return samplers.RandomSampler(seed=seed)
    if chosen.name == "grid":  # the seed decides the numbering of the grid, so it is the same for all trials
        grid = {name: parameter.grid() for name, parameter in space.items()}
        return samplers.GridSampler(grid, seed=options["seed"])
    if chosen.name == "nsga2":
        return samplers.NSGAIISampler(population_size=options["population"], seed=seed)
    return samplers.TPESampler(n_startup_trials=options["startup"], seed=seed)
