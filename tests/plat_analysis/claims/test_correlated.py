"""Correlations over settings as claims and as a figure: what was planted is found, holes decide nothing.

Few settings are refused before anything runs.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment
from plat_analysis.claims.correlated import correlated
from plat_analysis.contrasts.setting_correlations import OverSettings, covariates
from plat_analysis.data.results import Results
from plat_analysis.figures.correlations import build
from plat_analysis.figures.style import images
from plat_analysis.plugins.entry_checking import check_entries

SETTINGS = [f"s{number}" for number in range(9)]
PROXY = {"proxy": "actor/entropy"}


@pytest.fixture
def planted(make_experiment, make_frames):
    """(experiment, frames) of nine settings; a row says how the proxy goes with success between and within them."""

    def make(signs, seeds=5, settings=SETTINGS, holes=()):
        experiment = make_experiment(
            rows=list(signs), tasks=["sokoban"], filters=settings, seeds=range(seeds), builds=[0, 1]
        )
        frames = make_frames(experiment, holes={experiment.runs[index].id: "failed:oom" for index in holes})
        random, metrics = np.random.default_rng(1), []
        for run in experiment.runs:
            between, within = signs[run.axes["variant"]]
            level, noise = 0.05 * settings.index(run.axes["filter"]), 0.01 * random.standard_normal()
            metrics += [(run.id, "heldout/final_success", 60, 0.4 + level + noise)]
            metrics += [(run.id, "actor/entropy", 60, between * level + within * noise + 0.002 * random.random())]
        kept = frames.runs[frames.runs.outcome == "finished"].run_id
        frames.metrics = pd.DataFrame(metrics, columns=["run_id", "key", "step", "value"])
        frames.metrics = frames.metrics[frames.metrics.run_id.isin(kept)]
        frames.tables = frames.tables[:0]
        return experiment, frames

    return make


def judge(made, **options):
    experiment, frames = made
    chosen = {"conditions": "filter", "proxies": PROXY, "rows": "variant", **options}
    return correlated(frames, experiment, **chosen)


def drawn(made, **options):
    experiment, frames = made
    return build(frames, experiment, conditions="filter", proxies=PROXY, rows="variant", **options)[0]


def test_what_was_planted_is_found(planted):
    made = planted({"PPO": (1, -1), "GRPO": (1, -1)})  # Simpson
    assert judge(made).status == "shown"
    assert judge(made, across="within", sign="negative").status == "shown"
    assert judge(made, across="within").status in ("contradicted", "not_of_this_size")
    assert judge(made, sign="not_positive").status in ("contradicted", "not_of_this_size")
    assert judge(planted({"PPO": (1, 1), "GRPO": (-1, 1)})).status in ("contradicted", "not_of_this_size")
    assert judge(planted({"PPO": (1, 0), "GRPO": (0, 0)})).status == "shown_in_part"
    assert judge(planted({"PPO": (0, 0)})).status == "open"
    assert judge(planted({"PPO": (-1, 0)}), sign="not_positive").status == "shown"


def test_no_correlation_is_not_yet_not_positive(planted):
    verdict = judge(planted({"PPO": (0, 0)}), sign="not_positive", smallest=0.0)
    assert verdict.status == "open" and "against 0.00" in verdict.detail


def test_several_proxies_share_the_error(planted):
    made = planted({"PPO": (1, 0)})
    verdict = judge(made, proxies={"a": "actor/entropy", "b": "actor/entropy", "none": "heldout/final_success"})
    assert verdict.status == "shown" and "PPO, a" in verdict.detail and "PPO, none" in verdict.detail


def test_a_missing_run_or_too_few_of_them_are_not_enough_data(planted):
    verdict = judge(planted({"PPO": (1, 0)}, holes=[3]))
    assert verdict.status == "not_enough_data" and "s0 has 9 of 10 runs (build 0 seed 3: failed:oom)" in verdict.detail
    verdict = judge(planted({"PPO": (1, 0)}, seeds=2))
    assert (
        verdict.status == "not_enough_data" and "4 of the 5 runs in each setting that a verdict needs" in verdict.detail
    )


def test_what_the_strength_of_a_setting_explains_is_taken_away(planted):
    made = planted({"PPO": (1, 0)})
    assert judge(made, strength={"all": SETTINGS}).status == "open"


def test_settings_that_are_the_same_runs_are_one(planted):
    experiment, _ = planted({"PPO": (1, 0)})
    same = [(axes | {"filter": "again"}, run) for axes, run in experiment.cells if axes["filter"] == "s3"]
    twice = replace(experiment, cells=[*experiment.cells, *same])
    settings = OverSettings(conditions="filter", rows="variant").settings(Results.planned(twice))["PPO"]
    assert len(settings.names) == 9 and ("s3", "again") in settings.names
    given = covariates(settings, {"up": SETTINGS, "other": ["s0", "again"]})
    assert given[3].tolist() == [1.0, 3 / 8, 1.0, 1.0] and given[0].tolist() == [1.0, 0.0, 1.0, 0.0]
    some = [axes_and_run for axes_and_run in same if axes_and_run[0]["seed"] > 0]
    own = [(axes | {"filter": "again"}, run) for axes, run in experiment.cells if axes["filter"] == "s4"]
    mixed = replace(experiment, cells=[*experiment.cells, *some, *(cell for cell in own if cell[0]["seed"] == 0)])
    with pytest.raises(SpecError, match="share some of their runs"):
        OverSettings(conditions="filter", rows="variant").settings(Results.planned(mixed))


@pytest.mark.parametrize(
    "strength, what",
    [
        ({"all": [*SETTINGS, "s99"]}, "'all' names 's99'"),
        ({"all": SETTINGS[:-1]}, "'s8' is in no family"),
        ({"a": SETTINGS[:5], "b": SETTINGS[5:]}, None),
        ({"a": SETTINGS[:3], "b": SETTINGS[3:6], "c": SETTINGS[6:]}, "9 settings are too few beside 5 covariates"),
    ],
)
def test_families_of_settings(planted, strength, what):
    experiment, _ = planted({"PPO": (1, 0)})
    settings = OverSettings(conditions="filter", rows="variant").settings(Results.planned(experiment))["PPO"]
    if what is None:
        assert covariates(settings, strength).shape == (9, 4)
        return
    with pytest.raises(SpecError, match=what):
        covariates(settings, strength)


def test_the_figure_says_what_is_shown(planted):
    made = planted({"PPO": (1, -1), "GRPO": (0, 0)})
    figure = drawn(made, strength={"all": SETTINGS})
    points = {(point["row"], point["across"]): point for point in figure.points}
    assert len(points) == 6 and "controlled at 5 %" in figure.caption
    between, within = points["PPO", "between settings"], points["PPO", "within a setting"]
    assert between["star"] == 1 and within["star"] == -1 and points["GRPO", "between settings"]["star"] == 0
    assert between["p"] < between["p_corrected"] and between["different_runs"] > 0.8
    assert between["low"] < 0.98 < between["value"] and between["settings"] == 9
    assert len(between["run_ids"].split()) == between["runs"] == between["runs_wanted"] == 90
    assert b"correlation-0" in images(figure)["svg"] and "Hollow" not in figure.caption


def test_a_figure_of_what_is_there_has_no_star(planted):
    missing = range(10)  # all runs of a setting
    figure = drawn(planted({"PPO": (1, 1)}, holes=missing))
    for point in figure.points:
        assert point["settings"] == 8 and point["star"] == 0 and point["p_corrected"] is None
        assert "s0 has 0 of 10 runs" in point["note"]
    assert "No correlation is judged" in figure.caption
    few = drawn(planted({"PPO": (1, 1)}, holes=range(40)))
    assert [point["value"] for point in few.points] == [None, None] and "5 of 9 settings" in few.points[0]["note"]
    images(few)


FILE = """
title: t
base: {task: frozenlake, filter: top_p}
matrix: {filter.value: [0.5, 0.6, 0.7, 0.8, 0.9], algorithm: [ppo, grpo], seed: range(5)}
"""
ENTRY = "conditions: filter.value, rows: algorithm, proxies: {r: probe/retrieval_acc}"


@pytest.mark.parametrize(
    "kind, entry, what",
    [
        ("claims", f"id: a, check: correlated, {ENTRY}", "needs 6 settings, and 'filter.value' has 5 (ppo)"),
        ("report", f"builder: correlations, {ENTRY}", "needs 6 settings, and 'filter.value' has 5 (ppo)"),
        ("report", f"builder: correlations, {ENTRY}".replace("retrieval_acc", "retrieval"), "no run logs the metric"),
        ("claims", f"id: a, check: correlated, {ENTRY}, outcome: finl", "no run logs the metric 'finl'"),
        ("claims", f"id: a, check: correlated, {ENTRY}, sign: up", "sign: 'up' is not one of"),
        ("claims", f"id: a, check: correlated, {ENTRY}, smallest: 30", "not the size of a correlation"),
        ("claims", f"id: a, check: correlated, {ENTRY}".replace("{r: probe/retrieval_acc}", "{}"), "none is named"),
        (
            "claims",
            f"id: a, check: correlated, across: within, strength: {{a: [0.5]}}, {ENTRY}",
            "runs of one setting have the same",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused_where_it_was_written(tmp_path, kind, entry, what):
    path = tmp_path / "x.yaml"
    path.write_text(f"{kind}: [{{{entry}}}]{FILE}")
    with pytest.raises(SpecError) as caught:
        check_entries(load_experiment(path))
    assert what in str(caught.value) and str(caught.value.where).startswith(f"{path}:1:")


def test_identical_settings_whose_runs_noise_moves_both_measures_show_nothing(planted):
    """A run's luck raises proxy and success together, and settings do not differ: the means of settings agree."""
    made = planted({"PPO": (0, 1)}, settings=[f"s{number}" for number in range(12)])
    frames = made[1]
    order = frames.metrics.run_id.drop_duplicates().tolist()
    luck = dict(zip(order, np.random.default_rng(3).standard_normal(len(order)), strict=True))
    frames.metrics = frames.metrics.assign(value=[luck[run] for run in frames.metrics.run_id])
    verdict = judge(made)
    assert verdict.status == "open" and "+1.00" in verdict.detail.split("(permutation)")[1]


def test_a_difference_between_named_families_shows_nothing(planted):
    made = planted({"PPO": (1, 0)}, settings=[f"s{number}" for number in range(12)])
    assert judge(made).status == "shown"
    experiment, frames = made
    high = {run.id: int(run.axes["filter"][1:]) > 5 for run in experiment.runs}
    noise = np.random.default_rng(4).standard_normal(len(frames.metrics))
    frames.metrics = frames.metrics.assign(value=[9.0 * high[run] for run in frames.metrics.run_id] + noise)
    groups = {"low": [f"s{number}" for number in range(6)], "high": [f"s{number}" for number in range(6, 12)]}
    verdict = judge((experiment, replace(frames)), within=groups)
    assert judge((experiment, replace(frames))).status == "shown" and verdict.status == "open"
    assert "12 settings in 2 families (6, 6), p" in verdict.detail and "permutation within families" in verdict.detail


def test_few_settings_say_how_small_a_p_can_be(planted):
    verdict = judge(planted({"PPO": (1, 0)}, settings=SETTINGS[:6]))
    assert verdict.status == "shown" and "the smallest p of so few settings is .001" in verdict.detail
    assert "so few settings" not in judge(planted({"PPO": (1, 0)}, settings=[*SETTINGS, "s9"])).detail
