"""What the regions of a page show, from the real bundles of the repository."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy import stats

from plat.errors import SpecError
from plat_analysis.documents.sources import content


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
    assert re.fullmatch(r"p \.\d+", shown(bundles, f"{COST} difference {RETURN} show=p"))
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
        ("table4 setting model.base.seed", "model.base.seed has several values"),
        ("table4 record peak_success row=GRPO", "numbers of 'peak_success' have row=GRPO"),
        ("table4 change filter-helps-every-row TRPO", "judges no row 'TRPO'"),
    ],
)  # fmt: skip
def test_what_names_nothing_is_refused(bundles, what, said):
    with pytest.raises(SpecError, match=re.escape(said)):
        shown(bundles, what)
