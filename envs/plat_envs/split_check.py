"""Check that no problem of an environment is in two splits: `python -m plat_envs.show NAME --check`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from itertools import combinations

from plat_envs.api import make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS, source_split

TRIED = 2000  # seeds of each split


def check_splits(task: str, options: Mapping[str, object], rendering: str, seeds: int = TRIED) -> dict[str, int]:
    """Return split -> number of its different problems among the first `seeds` seeds.

    Raises BadEnvironment, with two of their seeds, if a problem is in two splits. `base` and `train` are not compared,
    because they share the rows of real data. With the option `shared_pool`, validation is not compared with them.
    """
    first_seeds: dict[str, dict[str, int]] = {}  # split -> problem -> its first seed
    for split in SPLITS:
        with closing(make_environment(task, options, split, rendering)) as environment:
            problems = first_seeds.setdefault(split, {})
            for seed in range(seeds):
                environment.reset(seed)
                problems.setdefault(environment.problem, seed)
    shared_pool = bool(options.get("shared_pool"))
    for one, other in combinations(SPLITS, 2):
        both = first_seeds[one].keys() & first_seeds[other].keys()
        if not both or {one, source_split(other, shared_pool)} <= {"base", "train"}:
            continue
        example = min(both, key=lambda problem: first_seeds[one][problem])
        where = f"{one} seed {first_seeds[one][example]}, {other} seed {first_seeds[other][example]}"
        counted = f"{len(both)} of {len(first_seeds[other])} problems of {other} are in {one} too"
        raise BadEnvironment(
            f"{task}: {counted}", where=where, fix="let a hash of the problem decide its split (plat_envs.instances)"
        )
    return {split: len(problems) for split, problems in first_seeds.items()}
