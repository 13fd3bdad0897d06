"""The shipped controls: five seeds, as many runs as they say, and the runs of Table 4 wherever these will do."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment
from plat_analysis.plugins.entry_checking import check_entries

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
CONTROLS = sorted((EXPERIMENTS / "controls").glob("*.yaml"))
SHARED = {  # how many of its runs are runs of Table 4 at five seeds
    "control_base_builds": 60,
    "control_regularisers": 10,
    "control_selection": 40,
    "control_std_norm": 20,
    "control_step_size": 20,
    "control_usefulness": 20,
}


@pytest.fixture(scope="module")
def table4():
    return {run.id for run in load_experiment(EXPERIMENTS / "table4.yaml", ["matrix.seed=range(5)"]).runs}


def test_there_are_six():
    assert [path.stem for path in CONTROLS] == sorted(SHARED)


@pytest.mark.parametrize("path", CONTROLS, ids=lambda path: path.stem)
def test_a_control_has_five_seeds_and_the_runs_that_its_comment_says(path, table4):
    experiment = load_experiment(path)
    assert list(experiment.axes["seed"]) == [0, 1, 2, 3, 4]
    assert f"{len(experiment.runs)} runs" in path.read_text()
    assert len({run.id for run in experiment.runs} & table4) == SHARED[path.stem]


@pytest.mark.parametrize("path", CONTROLS, ids=lambda path: path.stem)
def test_every_claim_of_a_control_says_in_what_its_sides_differ(path):
    experiment = load_experiment(path)
    assert experiment.claims and all(claim["differ_in"] for claim in experiment.claims)
    assert any("measure" in claim for claim in experiment.claims)
    check_entries(experiment)


def test_selections_that_adapt_the_step_differently_are_refused(tmp_path):
    text = (EXPERIMENTS / "controls" / "control_selection.yaml").read_text().replace("paper: ragen2\n", "")
    path = tmp_path / "control.yaml"
    path.write_text(re.sub(r"(random: \{.*), filter.scale: loss", r"\1", text))
    with pytest.raises(SpecError, match=re.escape("filter.scale is none for random and loss for Top-p")):
        check_entries(load_experiment(path))
