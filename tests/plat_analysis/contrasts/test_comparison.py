"""A comparison whose sides differ in more than what it is about is refused, before training and after it."""

from __future__ import annotations

import re

import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment
from plat_analysis.claims.checks import mean_delta_positive
from plat_analysis.plugins.entry_checking import check_entries

FILE = """
title: t
base: {task: frozenlake, algorithm: grpo}
matrix:
  side:
    none: {filter: none}
    Top-p: {filter: top_p}
    random: {filter: random, filter.kept: as_top_p}
    random alike: {filter: random, filter.kept: as_top_p, filter.scale: loss}
    slow: {filter: none, train.lr: 1e-4}
    Top-p again: {filter: top_p}
  seed: [0, 1]
claims:
  - {id: a, check: CHECK, pair: side, baseline: BASELINE, treatment: TREATMENT, differ_in: KEYS}
"""
CHOICE = "[filter.rule, filter.metric, filter.value, filter.keep, filter.kept, filter.include_zero]"


def control(tmp_path, baseline, treatment, keys, check="mean_delta_positive"):
    path = tmp_path / "control.yaml"
    text = FILE.replace("BASELINE", baseline).replace("TREATMENT", treatment).replace("KEYS", keys)
    path.write_text(text.replace("CHECK", check))
    return load_experiment(path)


@pytest.mark.parametrize(
    "baseline, treatment, keys",
    [
        ("none", "Top-p", "[filter]"),
        ("random alike", "Top-p", CHOICE),
        ("random", "Top-p", CHOICE.replace("]", ", filter.scale]")),
        ("none", "slow", "[train.lr]"),
        ("slow", "Top-p", "[train, filter]"),
    ],
)
def test_sides_that_differ_as_said_are_accepted(tmp_path, baseline, treatment, keys):
    check_entries(control(tmp_path, baseline, treatment, keys))


@pytest.mark.parametrize("check", ["mean_delta_positive", "mean_delta_small"])
@pytest.mark.parametrize(
    "baseline, treatment, keys, what, fix",
    [
        ("random", "Top-p", CHOICE, "filter.scale is none for random and loss for Top-p", "the same filter.scale"),
        ("slow", "Top-p", "[filter]", "train.lr is 0.0001 for slow and 0.0003 for Top-p", "the same train.lr"),
        ("none", "Top-p", "[train.lr]", "filter.metric is reward_std for none and reward_variance", "and 4 more"),
        ("none", "Top-p", "[filter, train.lrr]", "no run has an option 'train.lrr'", "'train.lr'"),
        ("Top-p again", "Top-p", "[filter]", "Top-p again and Top-p are the same run", "options differ"),
    ],
)
def test_sides_that_differ_in_more_are_refused_before_training(tmp_path, check, baseline, treatment, keys, what, fix):
    experiment = control(tmp_path, baseline, treatment, keys, check)
    with pytest.raises(SpecError, match=re.escape(what)) as caught:
        check_entries(experiment)
    assert fix in caught.value.what + (caught.value.fix or "")
    assert caught.value.where and caught.value.where.startswith(f"{tmp_path / 'control.yaml'}:14:")


def test_they_are_refused_when_results_are_there_too(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3))
    frames = make_frames(experiment)
    assert mean_delta_positive(frames, experiment, differ_in=["filter"]).value
    treated = next(run for run in experiment.runs if run.axes["filter"] == "top_p")
    treated.config["eval"]["instances"] = 64
    with pytest.raises(SpecError, match=re.escape("eval.instances is 256 for none and 64 for top_p")):
        mean_delta_positive(frames, experiment, differ_in=["filter"])
    assert mean_delta_positive(frames, experiment).value


@pytest.mark.parametrize("name", ["args.run_length", "args.lr"])
def test_an_option_whose_name_ends_with_name_is_no_name_of_a_group(tmp_path, name):
    path = tmp_path / "script.yaml"
    sides = "a: {run_length: 1, lr: 1, run_name: x}, b: {run_length: 2, lr: 2, run_name: y}"
    path.write_text(
        f"title: t\nbase:\n  trainer: script\n  script.command: echo {{run_length}} {{lr}} {{run_name}}\n"
        f"matrix: {{side: {{{sides}}}, seed: [0]}}\n"
        "claims: [{id: a, check: mean_delta_positive, pair: side, baseline: a, treatment: b, measure: {metric: m}, "
        f"smallest: 1, differ_in: [{name}]}}]\n"
    )
    with pytest.raises(SpecError, match=f"differ_in names, .*{'args.lr' if name != 'args.lr' else 'args.run_length'}"):
        check_entries(load_experiment(path))
    path.write_text(path.read_text().replace(f"[{name}]", "[args.run_length, args.lr]"))
    with pytest.raises(SpecError, match=r"args\.run_name is x for a"):
        check_entries(load_experiment(path))


def test_several_axes_make_the_columns_of_one_row(make_experiment, make_frames):
    """The mean change over rows x columns is that of the rows' means, where every row has every column."""
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban", "countdown"], seeds=range(6))
    frames = make_frames(experiment)
    by_row = mean_delta_positive(frames, experiment)
    together = mean_delta_positive(frames, experiment, rows=[], columns=["variant", "task"])
    assert len(by_row.value) == 2 and len(together.value) == 1
    assert next(iter(together.value.values())) == pytest.approx(sum(by_row.value.values()) / 2)
