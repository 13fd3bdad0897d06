"""A whole experiment file sent to a real cluster gives the store that it gives on this machine, at smoke scale.

Equal run by run and metric by metric: only when and where things were done differs.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clusters import ROOT
from ray_cluster import on_ray
from stores import plat, results

from plat.store.home import Home
from plat.store.run_directory.state import run_state

pytestmark = pytest.mark.cluster


def sweep(name: str, home: Path, *more: str) -> None:
    """Give `plat sweep` of one of plat's own files."""
    file = str(ROOT / "experiments" / f"{name}.yaml")
    assert plat("sweep", file, "scale=smoke", "--home", str(home), *more) == 0


@pytest.fixture(scope="module")
def swept_here(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The home of a file that was swept on this machine, each once."""
    homes: dict[str, Path] = {}

    def home_of(name: str) -> Path:
        if name not in homes:
            homes[name] = tmp_path_factory.mktemp(name)
            sweep(name, homes[name], "--jobs", "2")
        return homes[name]

    return home_of


def sweep_on_slurm(cluster: Any, name: str, home: Path) -> None:
    """Submit and leave, wait until every run is done, and bring the rest into the store."""
    options = ("--on", "slurm", "cluster.runs_per_task=9", "cluster.refresh=1")
    sweep(name, home, *options)
    while any(run_state(paths).state != "done" for paths in Home(home).all_runs()):
        assert plat("status", "--home", str(home)) == 0
        time.sleep(2)
    sweep(name, home, *options)


def sweep_on_ray(cluster: Any, name: str, home: Path) -> None:
    sweep(name, home, "--on", "ray", "cluster.runs_per_task=9", *on_ray(cluster))


@pytest.mark.parametrize("name", ["quickstart", "table4"])
@pytest.mark.parametrize(("place", "sweep_there"), [("real", sweep_on_slurm), ("ray", sweep_on_ray)])
def test_the_store_is_the_one_that_the_file_gives_here(request, swept_here, tmp_path, name, place, sweep_there):
    here, there = swept_here(name), tmp_path / "there"
    Home(there).create()
    shutil.copytree(here / "cache", there / "cache", dirs_exist_ok=True)  # the base models, built once
    sweep_there(request.getfixturevalue(place), name, there)
    assert results(here) == results(there)
