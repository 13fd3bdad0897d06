"""An entry whose runs the command line left out is a note or a verdict; the others are made, and nothing fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment, load_experiment
from plat_analysis.claims import check_claims
from plat_analysis.plugins.command_line import narrowing
from plat_analysis.report.build import build_report
from plat_analysis.report.report import Provenance

FILE = """
title: t
base: {task: frozenlake}
matrix: {filter: [none, top_p], algorithm: [ppo, grpo], seed: [0, 1]}
report:
- {builder: paired_deltas, rows: algorithm, columns: task}
- {builder: learning_curves, rows: algorithm, columns: task}
claims:
- {id: helps, says: it helps, check: mean_delta_positive, rows: algorithm, columns: task}
- {id: starts_low, says: low, check: level, measure: final, rows: [algorithm, filter], bound: 2}
"""
WHY = "left out because of matrix.filter=[none]: there are no two sides to compare: no run has filter=top_p"


def experiment(tmp_path: Path, *overrides: str, text: str = FILE) -> Experiment:
    (tmp_path / "x.yaml").write_text(text)
    return load_experiment(tmp_path / "x.yaml", overrides)


def test_a_report_of_one_side_has_the_entries_that_do_not_compare(tmp_path, make_frames):
    narrowed = experiment(tmp_path, "matrix.filter=[none]")
    report = build_report(make_frames(narrowed, steps=30), narrowed, Provenance())
    assert not report.failures and report.provenance is not None
    assert report.provenance.notes == (f"The report entry 'paired_deltas' is {WHY}.",)
    assert report.artifacts and all(artifact.name.startswith("learning_curves") for artifact in report.artifacts)
    assert [claim.status for claim in report.claims] == ["not_enough_data", "not_enough_data"]
    assert report.claims[0].lines == ("only: matrix.filter=[none]", WHY)
    assert "left out" not in report.claims[1].detail, "it compares nothing"


def test_without_the_override_everything_is_made(tmp_path, make_frames):
    whole = experiment(tmp_path)
    report = build_report(make_frames(whole, steps=30), whole, Provenance())
    assert not report.failures and report.provenance is not None and report.provenance.notes == ()
    assert "left out" not in report.claims[0].detail and len(report.artifacts) > 1


def test_a_value_that_the_file_misspells_is_refused_under_an_override(tmp_path, make_frames):
    wrong = experiment(tmp_path, "matrix.filter=[none]", text=FILE.replace("id: helps,", "id: helps, treatment: topp,"))
    frames = make_frames(wrong, steps=30)
    for call in (build_report, check_claims):
        with pytest.raises(SpecError, match="the axis 'filter' has no value 'topp'"):
            call(frames, wrong)


def test_only_overrides_that_leave_values_out_are_narrowing(tmp_path):
    overrides = ("algorithm=grpo", "matrix.seed=range(3)", "train.lr=0.1", "matrix.filter=[top_p]")
    assert narrowing(experiment(tmp_path, *overrides)) == ["algorithm=grpo", "matrix.filter=[top_p]"]
