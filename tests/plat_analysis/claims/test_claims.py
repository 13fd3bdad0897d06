"""Verdicts: what holds, what is refuted, what is open, and how many seeds would decide."""

from __future__ import annotations

import re
from itertools import product

import numpy as np
import pytest
from scipy import stats

from plat.errors import SpecError
from plat_analysis.claims.checks import decide_small, mean_delta_positive
from plat_analysis.claims.decided import RowEvidence, decide_rows
from plat_analysis.claims.engine import Verdict, run_checks
from plat_analysis.statistics.intervals import Estimate
from plat_analysis.statistics.replicates import Replicate, over_replicates
from plat_analysis.statistics.significance import MOST, power, seeds_needed, spread_range

SEEDS = [Replicate(None, seed) for seed in range(5)]


def enumerated(values):
    return ((Replicate(None, seed), float(value)) for seed, value in enumerate(values))


def row(mean, published=None, spread=2.0, seeds=5, wanted=None):
    """A row with exactly that mean and that spread between its seeds."""
    values = np.linspace(-1, 1, seeds) if seeds > 1 else np.zeros(1)
    values = mean + (spread * values / values.std(ddof=1) if seeds > 1 else values)
    replicates = {Replicate(None, seed): value for seed, value in enumerate(values)}
    return RowEvidence(over_replicates(replicates, wanted=wanted or seeds), published)


def test_what_is_excluded_names_both_sizes_where_only_some_rows_are_published():
    said = {
        count: decide_rows({str(at): row(0, published=16 if at < count else None) for at in range(3)}).deciding
        for count in (0, 1, 3)
    }
    assert said == {
        0: "a 5-point gain excluded in 3 of 3",
        1: "the published gain, or a 5-point gain, excluded in 3 of 3",
        3: "the published gain excluded in 3 of 3",
    }


def test_a_row_with_a_comma_in_its_name_is_named_whole():
    said = decide_rows({"text input, GRPO": row(1, seeds=2)}).deciding
    assert "text input, GRPO" in said and "seeds" in said, said


@pytest.mark.parametrize(
    "rows, status",
    [
        ([row(10)], "shown"),
        ([row(10), row(9), row(11)], "shown"),
        ([row(10), row(0)], "shown_in_part"),
        ([row(-10)], "contradicted"),
        ([row(10), row(-10)], "contradicted"),  # the claim is about every row
        ([row(0, published=16)], "not_of_this_size"),  # excludes the published size
        ([row(10), row(0, published=16)], "shown_in_part"),
        ([row(4.0, published=16)], "shown"),  # smaller than published, and above zero
        ([row(1, spread=10)], "open"),
        ([row(-1, spread=10)], "open"),  # a mean below zero is no evidence
        ([row(-3, published=-3.0)], "open"),  # as published: not refuted by it
        ([row(10, seeds=4)], "not_enough_data"),  # as many as one condition that collapses in half of its runs may fool
        ([row(10, seeds=2)], "not_enough_data"),
        ([row(10, seeds=1)], "not_enough_data"),
        ([row(10), row(10, seeds=4, wanted=5)], "not_enough_data"),
        ([], "not_enough_data"),
    ],
)
def test_verdicts(rows, status):
    decision = decide_rows({str(index): item for index, item in enumerate(rows)})
    assert decision.status == status, decision.detail
    for index, item in enumerate(rows):
        assert f"{index} " in decision.detail, "every row is named"
        assert item.estimate.note in decision.detail


def test_missing_runs_are_named():
    decision = decide_rows({"PPO": RowEvidence(Estimate(wanted=3, note="sokoban: seed 1: failed:oom"))})
    assert decision.status == "not_enough_data" and "failed:oom" in decision.detail


def test_one_seed_asks_for_five_and_two_give_a_number():
    assert "at least 5" in decide_rows({"PPO": row(5, seeds=1)}).detail
    detail = decide_rows({"PPO": row(5, published=6.9, spread=4.0, seeds=2)}).detail
    number = seeds_needed([(6.9, 4.0)], 0.025)
    assert (
        f"about {number} seeds would decide" in detail and "4.0 points" in detail and "effects of 6.9 points" in detail
    )


def test_seeds_that_were_judged_are_not_counted_again():
    """A claim that is judged at every number of seeds is falsely held more often than promised."""
    judged = decide_rows({"PPO": row(1, spread=10)}).detail
    assert "fresh seeds would decide, if judged once; the spread between seeds is " in judged
    few, many = (int(text) for text in re.search(r"from (\d+) to (\d+) may be needed", judged).groups())
    middle = int(re.search(r"about (\d+) fresh", judged)[1])
    assert few < middle < many


def test_an_open_row_alone_asks_for_seeds():
    clear, refuted = row(10), row(0, published=16)
    assert "would decide" not in decide_rows({"PPO": clear, "GRPO": refuted}).detail
    assert "would decide" in decide_rows({"PPO": clear, "GRPO": row(1, spread=10)}).detail


def test_foreseen_looks_share_the_error():
    item = row(3.1, spread=2.2)  # p .017 by t
    assert decide_rows({"PPO": item}).status == "shown"
    assert decide_rows({"PPO": item}, looks=2).status == "open"


def test_one_unit_of_five_on_the_other_side_is_no_verdict():
    def changes(*values):
        return {"PPO": RowEvidence(over_replicates(dict(zip(SEEDS, values, strict=True)), wanted=5))}

    held, not_held = decide_rows(changes(10, 12, 9, 11, 0.5)), decide_rows(changes(10, 12, 9, 11, -0.5))
    assert (held.status, not_held.status) == ("shown", "open")
    assert "(t), .031 (sign flips)" in held.lines[1] and ".062 (sign flips)" in not_held.lines[1]


def test_a_p_value_says_what_it_is_against_unless_that_is_zero():
    small, wrong = row(0, published=16), row(-30, published=-8)
    for decision, size in ((decide_rows({"PPO": small}), "+16.0"), (decide_rows({"PPO": wrong}), "−8.0")):
        assert decision.status in ("contradicted", "not_of_this_size") and decision.lines[1].endswith(
            f"both against {size}"
        )
    for item in (row(10), row(1, spread=10), row(-30)):
        assert "against" not in decide_rows({"PPO": item}).detail


def test_two_builds_are_judged_as_strata_where_the_claim_says_so():
    values = {Replicate(build, seed): 3.0 + build + 0.1 * seed for build in range(2) for seed in range(5)}
    fixed = decide_rows({"PPO": RowEvidence(over_replicates(values, builds="fixed", wanted=10))})
    assert fixed.status == "shown" and "about these 2 builds of the base model, over seeds" in fixed.lines
    two = decide_rows({"PPO": RowEvidence(over_replicates(values, wanted=10))})
    assert two.status == "not_enough_data" and "about such builds of the base model" in two.lines
    assert "builds would decide" in two.detail
    three = values | {Replicate(2, seed): 3.0 + 0.1 * seed for seed in range(5)}
    such = decide_rows({"PPO": RowEvidence(over_replicates(three, wanted=15))})
    assert such.status == "not_enough_data" and "about such builds of the base model" in such.lines


def changes(*tables, builds="fixed"):
    """Rows of changes [build, seed], or [seed] of one build."""
    rows = {}
    for at, table in enumerate(tables):
        table = np.atleast_2d(np.array(table, float))
        values = {Replicate(b, s): float(x) for b, row in enumerate(table) for s, x in enumerate(row)}
        rows[str(at)] = RowEvidence(over_replicates(values, builds=builds, wanted=table.size))
    return rows


def test_a_rare_loss_stands_beside_the_mean():
    gains = [2.4, 2.6, 2.2, 2.9, 2.5, 2.0, 3.0, 2.3, 2.7]
    verdict = decide_rows(changes([*gains, -20.1]))
    assert verdict.status == "open"
    assert "; usually above zero (9 of 10), the mean is open; median +2.5, largest loss −20.1" in verdict.lines[1]
    mirrored = decide_rows(changes([-gain for gain in gains] + [20.1]))
    assert mirrored.lines[1].endswith("; median −2.5, largest gain +20.1") and "usually" not in mirrored.detail
    assert "median" not in decide_rows(changes([*gains, 1.0])).detail, "no loss"
    assert "usually" not in decide_rows(changes([*gains, 2.0])).detail, "the mean is above zero"
    small = decide_small(changes([*gains, -20.1]))
    assert "largest loss −20.1" in small.lines[0]


def test_seeds_that_builds_share_are_warned_of():
    shared = np.array([1.0, -2.0, 4.0, 0.5, -1.0])
    apart = [[1.0, 2.0, -1.0, 3.0, 0.0], [2.0, -1.0, 1.0, 0.0, 3.0]]
    verdict = decide_rows(changes(apart, [shared, np.add(shared, [3.0, 3.1, 2.9, 3.2, 3.0])]))
    assert (
        "changes of one seed agree across builds in 1 (correlation 1.00, by chance in 1 of 20 claims)" in verdict.detail
    )
    assert "5 seeds count, not 10 runs" in verdict.detail
    assert "agree" not in decide_rows(changes(apart)).detail
    assert "agree" not in decide_rows(changes([shared] * 6, builds="random")).detail, "seeds are crossed with builds"


def test_the_least_p_value_of_sign_flips_is_said_where_they_decide():
    table = 3.0 + np.arange(6)[:, None] / 10 + np.arange(5)
    table[2] -= table[2].mean() + 0.1  # one build of six
    verdict = decide_rows(changes(table, builds="random"))
    assert ".031 (sign flips, the least that 5 seeds allow)" in verdict.detail and verdict.status == "open"
    many = changes(3 + 0.01 * np.arange(8), *(30 * np.random.default_rng(1).standard_normal((8, 8))))
    assert ".004 (sign flips, the least that 8 seeds allow)" in decide_rows(many).detail, "nine rows need .0028"
    two = decide_rows(dict(list(many.items())[:2]))
    assert two.status == "shown_in_part" and "allow" not in two.lines[1]
    assert "allow" not in decide_rows(changes(3 + 0.1 * np.arange(5))).detail, "t decides"


def test_the_seeds_of_rows_with_their_own_spread():
    few, many = (
        decide_rows(changes(*(spread * np.linspace(-1, 1, seeds) for spread in (16, 40)))).detail for seeds in (5, 10)
    )
    assert (
        "the spread between seeds is 10.8 to 26.9 points" in many and "the spread between seeds is 24.1 points" in few
    )
    alone = decide_rows(changes(40 * np.linspace(-1, 1, 10))).detail
    seeds = [int(re.search(r"about (\d+) fresh", text)[1]) for text in (many, alone)]
    assert seeds[0] > seeds[1], "the row that varies most decides, with two rows to show"


def test_every_row_has_a_line_of_its_own():
    decision = decide_rows({"PPO": row(1, spread=10), "GRPO": row(2, spread=10)})
    assert [line.split()[0] for line in decision.lines[:4]] == ["open", "PPO", "GRPO", "over"]
    assert decision.lines[0] == "open in 2 of 2" and "seeds would decide" in decision.lines[4]
    assert decision.lines[3] == "over seeds"
    assert decision.detail == "; ".join(decision.lines)


def test_the_spread_of_equal_runs_is_not_said_to_be_observed():
    equal = over_replicates(dict.fromkeys(SEEDS, 1.0), rounding=5.1, wanted=5)
    assert "between seeds is 5.1 points (the least that the rounding" in decide_rows({"PPO": RowEvidence(equal)}).detail
    assert "rounding" not in decide_rows({"PPO": row(1, spread=10)}).detail


def test_a_restricted_matrix_is_named_in_the_verdict(make_experiment, make_frames):
    claims = [{"id": "a", "check": "mean_delta_positive", "says": "it helps"}]
    chosen = {"claims": claims, "left_out": {"task": ["countdown"], "seed": [1], "filter": []}}
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], **chosen)
    (verdict,), _ = run_checks(make_frames(experiment), experiment)
    assert verdict.lines[0] == "only: matrix.task=[sokoban]" and verdict.detail.startswith("only: matrix.task=")
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], claims=claims, left_out={"seed": [1]})
    (verdict,), _ = run_checks(make_frames(experiment), experiment)
    assert "only:" not in verdict.detail


def test_a_claim_of_our_own_is_of_no_paper(make_experiment, make_frames):
    """`reproduced` is said of what the paper says."""
    claim = {"check": "mean_delta_positive", "says": "it helps"}
    claims = [{"id": "theirs", **claim}, {"id": "own", "ours": True, **claim}]
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], claims=claims)
    verdicts, failures = run_checks(make_frames(experiment), experiment)
    assert experiment.paper and not failures
    assert {verdict.id: verdict.of_paper for verdict in verdicts} == {"theirs": True, "own": False}


@pytest.mark.parametrize("seeds, size, spread", [(5, 5, 3), (6, 5, 3), (8, 4, 3), (10, 2, 3)])
def test_power_equals_a_simulation(seeds, size, spread):
    """By the decisions themselves, which take both Student's t and the sign flips."""
    rng = np.random.default_rng(0)
    held = [
        "shown" == decide_rows({"PPO": RowEvidence(over_replicates(dict(enumerated(values)), wanted=seeds))}).status
        for values in rng.normal(size, spread, (600, seeds))
    ]
    assert power(seeds, size, spread, 0.025) == pytest.approx(np.mean(held), abs=0.05)


def test_power_of_many_seeds_is_that_of_students_t():
    rng = np.random.default_rng(0)
    shown = stats.ttest_1samp(rng.normal(2, 3, (20_000, 20)), 0, axis=1, alternative="greater").pvalue <= 0.025
    assert power(20, 2, 3, 0.025) == pytest.approx(shown.mean(), abs=0.012)


def test_the_seeds_needed_are_the_smallest_that_suffice():
    for size, spread, rows in product((2, 5, 20), (1, 4), (1, 9)):
        count = seeds_needed([(size, spread)] * rows, 0.025)
        power_of_row = 1 - 0.2 / rows
        assert count == 5 or power(count - 1, size, spread, 0.025) < power_of_row
        assert count > MOST or power(count, size, spread, 0.025) >= power_of_row
    assert seeds_needed([(0.01, 50)], 0.025) == MOST + 1


def test_a_smaller_spread_never_needs_more_seeds():
    needed = [seeds_needed([(5, spread)], 0.025) for spread in np.geomspace(0.05, 20, 200)]
    assert needed == sorted(needed) and needed[0] == 5


def test_the_range_of_a_spread_holds_the_true_one_as_often_as_it_says():
    rng = np.random.default_rng(1)
    spreads = rng.normal(0, 3, (2000, 5)).std(axis=1, ddof=1)
    inside = [low < 3 < high for low, high in (spread_range(spread, 4) for spread in spreads)]
    assert np.mean(inside) == pytest.approx(0.9, abs=0.02)


def frames_with_effects(make_experiment, make_frames, effects, seeds=5):
    """Frames of two rows in which the treatment adds an effect (in points) to the same peaks, with a little noise."""
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["frozenlake", "countdown"], seeds=range(seeds))
    frames = make_frames(experiment, steps=20)
    frames.tables = frames.tables.iloc[:0]
    rng = np.random.default_rng(5)
    frames.metrics = frames.metrics[frames.metrics["key"] == "val/success"].reset_index(drop=True)
    for run in experiment.runs:
        effect = effects[run.axes["variant"]] if run.axes["filter"] == "top_p" else 0.0
        mine = frames.metrics["run_id"] == run.id
        frames.metrics.loc[mine, "value"] = 0.4 + effect / 100 + 0.01 * rng.standard_normal()
    return experiment, frames


@pytest.mark.parametrize(
    "effects, expected",
    [((30, 30), "shown"), ((30, 0), "shown_in_part"), ((-30, 30), "contradicted"), ((-30, -30), "contradicted")],
)
def test_mean_delta_positive(make_experiment, make_frames, effects, expected):
    experiment, frames = frames_with_effects(
        make_experiment, make_frames, dict(zip(("PPO", "GRPO"), effects, strict=True))
    )
    verdict = mean_delta_positive(frames, experiment, paper="table4")
    assert verdict.status == expected, verdict.detail
    assert set(verdict.value) == {"PPO", "GRPO"} and len(verdict.run_ids) == 40
    assert "published" in verdict.detail
    with pytest.raises(SpecError, match="no row 'PP0'"):
        mean_delta_positive(frames, experiment, only=["PP0"])


def test_one_seed_is_never_a_verdict(make_experiment, make_frames):
    experiment, frames = frames_with_effects(make_experiment, make_frames, {"PPO": 50, "GRPO": 50}, seeds=1)
    verdict = mean_delta_positive(frames, experiment)
    assert verdict.status == "not_enough_data" and "at least 5" in verdict.detail
    assert "[" not in verdict.detail, "an interval over instances is not shown as if it said something about runs"


def test_the_published_change_is_of_the_columns_that_are_compared(make_experiment, make_frames):
    _, frames = frames_with_effects(make_experiment, make_frames, {"PPO": 0, "GRPO": 0})
    experiment, frames = frames_with_effects(make_experiment, make_frames, {"PPO": 0, "GRPO": 0})
    detail = mean_delta_positive(frames, experiment, paper="table4").detail
    assert "published +5.5" in detail  # PPO: (10.9 + 0.0) / 2 of FrozenLake and Countdown
    assert "published −0.4" in detail  # GRPO: (-3.0 + 2.2) / 2


def test_columns_are_judged_for_themselves_where_the_claim_says_so(make_experiment, make_frames):
    """An effect in one column and the opposite in the other: their mean shows neither."""
    experiment, frames = frames_with_effects(make_experiment, make_frames, {"PPO": 0, "GRPO": 0})
    for run in experiment.runs:
        if run.axes["filter"] == "top_p":
            mine = frames.metrics["run_id"] == run.id
            frames.metrics.loc[mine, "value"] += 0.2 if run.axes["task"] == "frozenlake" else -0.2
    together = mean_delta_positive(frames, experiment, only=["PPO"])
    assert together.value["PPO"] == pytest.approx(0.0, abs=2.0)
    verdict = mean_delta_positive(frames, experiment, only=["PPO"], by_column=True)
    assert verdict.status in ("contradicted", "not_of_this_size"), "one column is below zero"
    assert {name: round(value, -1) for name, value in verdict.value.items()} == {
        "FrozenLake, PPO": 20,
        "Countdown, PPO": -20,
    }
    published = mean_delta_positive(frames, experiment, only=["PPO"], by_column=True, paper="table4").detail
    assert "published +10.9" in published and "published 0.0" in published


def test_sizes_are_published_of_the_peak_alone(make_experiment, make_frames):
    experiment, frames = frames_with_effects(make_experiment, make_frames, {"PPO": 0, "GRPO": 0})
    assert "published" in mean_delta_positive(frames, experiment, paper="table4").detail
    assert "published" not in mean_delta_positive(frames, experiment, paper="table4", measure="final").detail


def test_a_reason_leaves_out_one_of_one_and_keeps_other_counts():
    assert Verdict("shown", deciding="above zero in 1 of 1: grpo +9.6").reason == "above zero: grpo +9.6"
    other = "without enough data in 1 of 2: both fall in 1 of 10 runs"
    assert Verdict("not_enough_data", deciding=other).reason == other
