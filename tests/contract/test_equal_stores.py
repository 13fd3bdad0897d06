"""A whole experiment file sent to a real cluster gives the store that it gives on this machine, at smoke scale.

Equal run by run and metric by metric: only when and where things were done differs.
"""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from clusters import ROOT
from ray_cluster import on_ray
from stores import plat, results

from plat.store.home import Home
from plat.store.run_directory.state import run_state

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def sweep(home: Path, *more: str) -> None:
    """`plat sweep` of Table 4."""
    file = str(ROOT / "experiments" / "table4.yaml")
    assert plat("sweep", file, "scale=smoke", "--home", str(home), *more) == 0


@pytest.fixture(scope="module")
def swept_here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The home of the file that was swept on this machine."""
    home = tmp_path_factory.mktemp("here")
    sweep(home, "--jobs", "2")
    return home


def sweep_on_slurm(cluster: Any, home: Path) -> None:
    """Submit and leave, wait until every run is done, and bring the rest into the store."""
    options = ("--on", "slurm", "cluster.runs_per_task=9", "cluster.refresh=1")
    sweep(home, *options)
    while any(run_state(paths).state != "done" for paths in Home(home).all_runs()):
        assert plat("status", "--home", str(home)) == 0
        time.sleep(2)
    sweep(home, *options)


def sweep_on_ray(cluster: Any, home: Path) -> None:
    sweep(home, "--on", "ray", "cluster.runs_per_task=9", *on_ray(cluster))


@pytest.mark.parametrize(("place", "sweep_there"), [("real", sweep_on_slurm), ("ray", sweep_on_ray)])
def test_the_store_is_the_one_that_the_file_gives_here(request, swept_here, tmp_path, place, sweep_there):
    there = tmp_path / "there"
    Home(there).create()
    shutil.copytree(swept_here / "cache", there / "cache", dirs_exist_ok=True)  # the base models, built once
    sweep_there(request.getfixturevalue(place), there)
    assert results(swept_here) == results(there)
