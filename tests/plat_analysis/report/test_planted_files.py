"""Files of the paper with planted effects: from the frames of their runs to figures, tables and verdicts."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from plat.spec.expansion.experiment import load_experiment
from plat_analysis.report.build import build_report

ROOT = Path(__file__).parents[3]
GAINS = {"0": 0.2, "2": 0.2, "5": 0.18, "20": 0.16, "50": 0.08, "80": 0.0, "100": 0.0}
KEPT = {"all": 0.2, "random": 0.12, "Q1": 0.28, "Q2": 0.2, "Q3": 0.14, "Q4": 0.1}


@pytest.fixture(scope="module")
def stores():
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        yield importlib.import_module("simulated.stores")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))


@pytest.fixture
def reported(stores):
    """The report of a file whose runs logged `value(run's axes, random)`: metric -> value, or values by step."""

    def make(name, value, *overrides):
        experiment = load_experiment(ROOT / "experiments" / f"{name}.yaml", list(overrides))
        random, metrics = np.random.default_rng(8), []
        for run in experiment.runs:
            for key, drawn in value(run.axes, random).items():
                by_step = drawn if isinstance(drawn, dict) else {30: drawn}
                metrics += [(run.id, key, step, float(one)) for step, one in by_step.items()]
        report = build_report(stores.frames_of(experiment, metrics), experiment)
        assert not report.failures
        return report

    return make


def verdicts(report):
    return {verdict.id: verdict.status for verdict in report.claims}


def points(report, name):
    (figure,) = (artifact for artifact in report.artifacts if artifact.name == name)
    return figure.points


def test_a_threshold_of_noise(reported):
    """The filter gains up to a slip of a half, and nothing beyond."""

    def value(axes, random, gains=GAINS):
        gain = (axes["filter"] == "top_p") * gains[axes["slip"]]
        return {"val/success": {step: 0.3 + gain + 0.02 * random.standard_normal() for step in range(0, 31, 3)}}

    threshold = reported("fig9", value)
    assert verdicts(threshold) == {
        "gain-falls-with-the-slip": "shown",
        "filter-helps-at-low-noise": "shown",
        "gain-vanishes-at-high-noise": "shown",
    }
    drawn = points(threshold, "measure_lines")
    gains = {(point["row"], point["column"]): point["value"] for point in drawn if point["change"]}
    assert gains == pytest.approx({(row, slip): 100 * GAINS[slip] for row in ("ppo", "grpo") for slip in GAINS}, abs=2)
    same = verdicts(reported("fig9", lambda axes, random: value(axes, random, dict.fromkeys(GAINS, 0.15))))
    assert (
        same["gain-vanishes-at-high-noise"] in ("contradicted", "not_of_this_size")
        and same["gain-falls-with-the-slip"] == "open"
    )


def test_an_order_of_quartiles(reported):
    def value(axes, random):
        level = KEPT[axes["kept"]]
        return {
            key: level + 0.01 * random.standard_normal()
            for key in ("heldout/final_success", "val/success", "probe/retrieval_acc")
        }

    report = reported("table6", value)
    assert verdicts(report) == {
        "success-falls-with-the-quartile": "shown",
        "retrieval-falls-with-the-quartile": "shown",
        "q1-beats-a-random-quarter": "shown",
        "q1-beats-all-prompts": "shown",
        "a-random-quarter-is-as-good-as-all": "contradicted",
    }
    (table,) = (artifact for artifact in report.artifacts if artifact.name == "measures")
    finals = {
        (line["row"], line["condition"]): line["value"]
        for line in table.records
        if line["measure"] == "final" and not line["against"]
    }
    assert finals == pytest.approx({(row, kept): 100 * KEPT[kept] for row in ("ppo", "grpo") for kept in KEPT}, abs=2)


def test_simpsons_reversal_over_settings(reported):
    """Settings with more retrieval succeed more often; within a setting runs with more of it succeed less often."""
    strength: dict[str, float] = {}

    def value(axes, random):
        setting = strength.setdefault(axes["setting"], 0.02 * len(strength))
        own = 0.02 * random.standard_normal()
        return {
            "heldout/final_success": 0.2 + setting + own,
            "val/success": {8: 0.2 + 0.01 * random.standard_normal(), 30: 0.2 + setting + own},
            "probe/retrieval_acc": {8: 0.3 + setting, 30: 0.3 + setting - own},
            "probe/h_z_given_x": 1.0 - setting,
            "rollout/reward_var": dict.fromkeys((28, 29, 30), 1.0 + setting),
            "rollout/return_mean": {step: 0.5 + setting + 0.01 * random.standard_normal() for step in (28, 29, 30)},
        }

    report = reported("fig8", value, "matrix.algorithm=[ppo]")
    words = verdicts(report)
    assert words.pop("success-foretells-retrieval") == "open"  # success at 8 is noise
    assert set(words.values()) == {"shown"}
    found = {point["across"]: point for point in points(report, "correlations") if point["proxy"] == "Fresh retrieval"}
    assert found["between settings"]["value"] > 0.8 and found["between settings"]["star"] == 1
    assert found["within a setting"]["value"] < -0.8 and found["within a setting"]["star"] == -1
