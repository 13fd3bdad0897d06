"""Whole searches on a real Ray (marked `cluster`)."""

from __future__ import annotations

from pathlib import Path

import pytest
from clusters import ROOT
from ray_cluster import on_ray
from search_files import TOY_SEARCH
from stores import plat

pytestmark = [pytest.mark.cluster, pytest.mark.long]


def test_a_search_on_ray_finds_what_it_finds_here(ray, tmp_path):
    """With the pruner asha, and one run at a time, so that both ask for their trials in the same order."""
    file = tmp_path / "toy.yaml"
    file.write_text(TOY_SEARCH + "pruner: {name: asha, reduction: 2}\ntrials: 4\nseeds: [0]\nconfirm: [10]\n")
    here, there = tmp_path / "here", tmp_path / "there"
    assert plat("tune", str(file), "--jobs", "1", "--home", str(here)) == 0
    assert plat("tune", str(file), "--jobs", "1", "--home", str(there), "--on", "ray", *on_ray(ray)) == 0
    assert trials(here) == trials(there) and len(trials(here)) == 4


def test_the_search_for_a_keep_rate_goes_through_on_ray(ray, tmp_path):
    file, home = str(ROOT / "sweeps" / "keep_rate.yaml"), tmp_path / "home"
    small = ["scale=smoke", "trials=2", "seeds=[100]", "confirm=[0]", "--home", str(home)]
    assert plat("tune", file, *small, "--on", "ray", *on_ray(ray)) == 0
    assert len(trials(home)) == 2 and all(state == "COMPLETE" for _, state, _ in trials(home))


def trials(root: Path):
    """The trials of the one study of a home: parameters, state and values."""
    import optuna

    storage = f"sqlite:///{root / 'studies.db'}"
    [name] = optuna.get_all_study_names(storage)
    study = optuna.load_study(study_name=name, storage=storage)
    return [(trial.params, trial.state.name, trial.values) for trial in study.get_trials()]
