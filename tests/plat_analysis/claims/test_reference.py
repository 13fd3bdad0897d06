"""The verdicts of the committed results beside runs that are too few."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from plat.errors import SpecError
from plat_analysis.claims.reference import FILE, asks, reference_verdicts
from plat_analysis.report.build import build_report

CLAIM = {"id": "helps", "check": "mean_delta_positive", "says": "The filter helps."}


@pytest.fixture
def placed(make_experiment, make_frames, tmp_path):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3), claims=[CLAIM])
    experiment = replace(experiment, path=tmp_path / "folder" / f"{experiment.name}.yaml")

    def place(verdict="reproduced in 1 of 9", claim=CLAIM, seeds=3):
        claims = {"helps": {"asks": asks(claim), "verdict": verdict, "found": "above zero in 1 of 9"}}
        entry = {"command": "plat sweep x.yaml", "results": "docs/x", "runs": 720, "claims": claims}
        (tmp_path / FILE).write_text(json.dumps({experiment.name: entry}))
        return experiment

    return place


def test_it_stands_beside_too_little_data(placed, make_frames):
    experiment = placed()
    report = build_report(make_frames(experiment), experiment)
    assert {name: str(found) for name, found in report.reference.items()} == {
        "helps": "reproduced in 1 of 9 (above zero in 1 of 9), 720 runs in docs/x"
    }


def test_not_beside_a_verdict_of_ones_own(placed, make_experiment, make_frames):
    few = placed()
    enough = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(6), claims=[CLAIM])
    assert build_report(make_frames(enough), replace(enough, path=few.path)).reference == {}


def test_a_claim_that_asks_something_else_has_none(placed):
    assert reference_verdicts(placed(claim={**CLAIM, "smallest": 3})) == {}
    assert reference_verdicts(placed(claim={**CLAIM, "says": "In other words."}))
    assert reference_verdicts(placed(verdict="not enough data")) == {}


def test_a_damaged_file_is_named(placed, tmp_path):
    experiment = placed()
    for text in ("{", "[]", json.dumps({experiment.name: {"claims": 3}})):
        (tmp_path / FILE).write_text(text)
        with pytest.raises(SpecError, match="reference verdicts cannot be read") as error:
            reference_verdicts(experiment)
        assert FILE in str(error.value.where)
