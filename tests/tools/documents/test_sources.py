"""What the regions of a page show, from the real bundles of the repository."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats
from tools.documents.sources import content

from plat.errors import SpecError


def shown(bundles, what):
    return content(what, bundles.report, lambda name, figure: f"{name}.png")


def test_a_verdict_is_its_word_and_the_counts_of_its_rows(bundles):
    claims = shown(bundles, "control_selection claims").split("\n- ")[0].splitlines()
    verdict = shown(bundles, "control_selection verdict top-p-beats-none")
    assert claims[0].startswith(f"- **{verdict.partition(' (')[0]}**")
    counts = [line.strip(" -") for line in claims if re.search(r" in \d+ of \d+$", line)]
    assert len(counts) >= 2 and verdict.endswith(f" ({', '.join(counts)})")


def test_a_part_of_the_runs_is_counted_as_such(bundles):
    assert shown(bundles, "base_models runs").startswith("48 runs")
    assert shown(bundles, "base_models runs matrix.model.base.seed=[0]").startswith("16 runs")


COST = "confirmation_token_cost"
RETURN = "val/return filter=none filter=top_p last=4"


def test_counts_are_those_of_the_table_of_regimes(bundles):
    table = shown(bundles, f"{COST} table collapse_regimes plain").split("*Top-p*")
    low = [sum(re.search(r"\| 0\.1[23] \|", line) is not None for line in part.splitlines()) for part in table]
    counts = [shown(bundles, f"{COST} count fell filter={name}") for name in ("none", "top_p")]
    assert counts == [f"{low[0]} of 10", f"{low[1]} of 10"] and low[1] < low[0]
    assert shown(bundles, f"{COST} count fell filter=none alone") == str(low[0])
    builds = [shown(bundles, f"{COST} count fell filter=none,model.base.seed={build} alone") for build in (1, 2)]
    assert sum(map(int, builds)) == low[0]


def test_shares_and_exact_tests_are_those_of_scipy(bundles):
    hits = int(shown(bundles, f"{COST} count fell filter=none alone"))
    exact = stats.binomtest(hits, 10).proportion_ci(method="exact")
    assert shown(bundles, f"{COST} share fell filter=none") == f"{100 * exact.low:.0f} to {100 * exact.high:.0f} %"
    p = stats.fisher_exact([[hits, 10 - hits], [0, 10]]).pvalue
    assert shown(bundles, f"{COST} fisher fell filter=none filter=top_p") == f"p {p:.3f}".replace("0.", ".")


def test_a_difference_is_paired_by_build_and_seed(bundles):
    results = bundles.report(COST).results
    ends = {}
    for run in results.positions:
        ends.setdefault(run.replicate, {})[run.axis("filter")] = results.curve(run.id, "val/return")[1][-4:].mean()
    changes = np.array([pair["none"] - pair["top_p"] for pair in ends.values()])
    text = shown(bundles, f"{COST} difference {RETURN}")
    assert text.startswith(f"+{changes.mean():.3f} [") and len(changes) == 10
    assert shown(bundles, f"{COST} difference {RETURN} show=positive") == f"{(changes > 0).sum()} of 10"
    means = [
        float(shown(bundles, f"{COST} mean val/return filter={name} last=4 digits=6")) for name in ("none", "top_p")
    ]
    assert means[0] - means[1] == pytest.approx(changes.mean(), abs=2e-6)


def test_numbers_of_tables_claims_and_settings(bundles):
    labels = ["row=0 · 0,column=sokoban,quantity=final", "row=0 · 0.05,column=sokoban,quantity=final"]
    before, after = (
        float(shown(bundles, f'control_regularisers record peak_success "{text}" digits=4')) for text in labels
    )
    change = shown(bundles, f'control_regularisers percent peak_success "{labels[0]}" "{labels[1]}"')
    assert change == f"−{100 * (1 - after / before):.1f} %"
    claim = shown(bundles, "table4 change filter-helps-every-row GRPO")
    assert re.fullmatch(r"\+\d\.\d \[\+\d\.\d, \+\d\.\d\]", claim) and f"GRPO {claim}" in shown(
        bundles, "table4 claims"
    )
    assert shown(bundles, "table4 setting model.base.usefulness") == ".25"


GRPO = "control_base_builds"
UNFILTERED = "algorithm=grpo,task=sokoban,filter=none"


def ends(bundles, metric, start):
    """(first measurement of one metric, last one of another) of each unfiltered run of GRPO on Sokoban."""
    results = bundles.report(GRPO).results
    runs = [
        run
        for run in results.positions
        if (run.axis("algorithm"), run.axis("task"), run.axis("filter")) == ("grpo", "sokoban", "none")
    ]
    return np.array([[results.curve(run.id, start)[1][0], results.curve(run.id, metric)[1][-1]] for run in runs]).T


def test_runs_that_rise_and_fall_are_counted_from_their_own_start(bundles):
    start, end = ends(bundles, "probe/retrieval_acc", "probe/retrieval_acc")
    counts = [
        shown(bundles, f"{GRPO} rise probe/retrieval_acc {UNFILTERED} show={name}") for name in ("risen", "fallen")
    ]
    assert counts == [f"{(end > start).sum()} of 15", f"{(end < start).sum()} of 15"] and 0 < (end > start).sum() < 15
    by_half = shown(bundles, f"{GRPO} rise probe/retrieval_acc {UNFILTERED} show=fallen by=.5")
    assert by_half == f"{(end < start / 2).sum()} of 15" and by_half != counts[1]
    start, end = ends(bundles, "heldout/final_success", "heldout/base_success")
    fell = shown(bundles, f"{GRPO} rise heldout/final_success {UNFILTERED} from=heldout/base_success show=fallen")
    assert fell == f"{(end < start).sum()} of 15"


def test_a_rise_has_the_interval_of_its_runs(bundles):
    start, end = ends(bundles, "val/return", "val/return")
    assert shown(bundles, f"{GRPO} rise val/return {UNFILTERED}").startswith(f"−{(start - end).mean():.2f} [")
    one = (end - start)[:5]  # build 0
    low, high = stats.t.interval(0.95, 4, one.mean(), stats.sem(one))
    text = shown(bundles, f"{GRPO} rise val/return {UNFILTERED},model.base.seed=0")
    assert text == f"{one.mean():+.2f} [{low:+.2f}, {high:+.2f}]".replace("-", "−")


def test_a_share_of_measurements_and_a_count_of_runs_beyond_a_limit(bundles):
    results = bundles.report(GRPO).results
    condition = f"{UNFILTERED},model.base.seed=0"
    values = [
        results.curve(run.id, "val/success")[1]
        for run in results.positions
        if all(run.axis(name) == text for name, text in (part.split("=") for part in condition.split(",")))
    ]
    every = np.concatenate(values)
    assert 0 < (every > 0.1).mean() < 1
    for name, share in (("above", (every > 0.1).mean()), ("below", (every < 0.1).mean())):
        assert shown(bundles, f"{GRPO} beyond val/success {condition} {name}=0.1") == f"{100 * share:.0f} %"
    last = sum(curve[-1] > 0.1 for curve in values)
    assert shown(bundles, f"{GRPO} beyond val/success {condition} above=0.1 last=1") == f"{last} of 5"
    ever = sum((curve < 0.1).any() for curve in values)
    assert shown(bundles, f"{GRPO} beyond val/success {condition} below=0.1 ever=yes") == f"{ever} of 5"
    mean = shown(bundles, f"{GRPO} mean val/success {condition} last=all times=100 digits=1")
    assert mean == f"{100 * every.mean():.1f}"


def test_conditions_with_a_bar_between_them_are_averaged_within_each_seed(bundles):
    builds = [f"{UNFILTERED},model.base.seed={build}" for build in (0, 1)]
    cells = [
        f"control_std_norm mean val/return task=sokoban,division=divided,filter={name}" for name in ("none", "top_p")
    ]
    with_cost, without = (
        [float(shown(bundles, f'{cell}",cost={cost} cost" digits=6')) for cell in cells] for cost in ("with", "without")
    )
    pooled = shown(
        bundles,
        "control_std_norm difference val/return "
        + " ".join(
            f'"task=sokoban,division=divided,filter={name},cost=with cost|'
            f'task=sokoban,division=divided,filter={name},cost=without cost"'
            for name in ("top_p", "none")
        ),
    )
    change = (with_cost[1] + without[1] - with_cost[0] - without[0]) / 2
    assert pooled.startswith(f"{change:+.3f} [".replace("-", "−"))
    with pytest.raises(SpecError, match="other builds or seeds"):
        shown(bundles, f'{GRPO} mean val/return "{builds[0]}|{builds[1]}"')


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (f"{COST} count fallen filter=none", "no property 'fallen'"),
        (f"{COST} count fell filter=bogus", "no run has filter=bogus"),
        (f"{COST} count fell filter", "'filter' has no value"),
        (f"{COST} count fell", "counts a property in a condition"),
        (f"{COST} fisher fell filter=none", "compares two conditions"),
        (f"{COST} mean val/nothing filter=none", "0 measurements of 'val/nothing'"),
        (f"{COST} difference val/return filter=none filter=top_p last=x", "last=x is no whole number"),
        (f"{COST} difference val/return filter=none filter=top_p first=1", "no option 'first=1'"),
        (f"{COST} mean val/return filter=none last=few", "last=few is no whole number"),
        (f"{COST} rise val/return filter=none show=up", "a rise has no 'up'"),
        (f"{COST} rise val/return filter=none show=fallen by=x", "by=x is no number"),
        (f"{COST} rise val/nothing filter=none", "0 measurements of 'val/nothing'"),
        (f"{COST} beyond val/nothing filter=none above=1", "0 measurements of 'val/nothing'"),
        (f"{COST} beyond val/return filter=none last=1", "it takes one limit"),
        (f"{COST} beyond val/return filter=none", "names no metric, condition and limit"),
        ("table4 setting model.base.seed", "model.base.seed has several values"),
        ("table4 record peak_success row=GRPO", "numbers of 'peak_success' have row=GRPO"),
        ("table4 change filter-helps-every-row TRPO", "judges no row 'TRPO'"),
    ],
)  # fmt: skip
def test_what_names_nothing_is_refused(bundles, what, said):
    with pytest.raises(SpecError, match=re.escape(said)):
        shown(bundles, what)
