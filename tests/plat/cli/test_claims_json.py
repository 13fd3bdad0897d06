"""The numbers of `plat claims --json` are those of the verdict, and those that scipy computes from the same runs."""

from __future__ import annotations

import json
import re

import jsonschema
import numpy as np
import pytest
from claimed_store import SEEDS, score
from scipy import stats


@pytest.fixture
def claims(plat, claimed_store):
    code, out, _ = plat("claims", claimed_store / "mine.yaml", "--home", claimed_store / "home", "--json")
    data = json.loads(out)
    jsonschema.validate(data, json.loads(plat("schema", "claims")[1]))
    assert code == 0
    return {claim["id"]: claim for claim in data["claims"]}


def changes(model: str) -> np.ndarray:
    return np.array([score(model, "0.1", seed) - score(model, "0.01", seed) for seed in range(SEEDS)])


def sign_flips(x: np.ndarray) -> float:
    """The exact one-sided p-value: the share of sign vectors with a sum as large."""
    found = stats.permutation_test((x,), np.sum, permutation_type="samples", alternative="greater")
    assert len(found.null_distribution) == 2 ** len(x)
    return float(found.pvalue)


def student(x: np.ndarray, deviation: float | None = None) -> float:
    error = (np.std(x, ddof=1) if deviation is None else deviation) / len(x) ** 0.5
    return float(stats.t.sf(x.mean() / error, len(x) - 1))


def test_rows_have_the_numbers_that_scipy_computes(claims):
    rows = {row["row"]: row for row in claims["helps"]["rows"]}
    assert list(rows) == ["small", "large"]
    spread = np.sqrt(np.mean([np.var(changes(model), ddof=1) for model in rows]))
    for model, row in rows.items():
        x = changes(model)
        low, high = stats.t.interval(0.95, len(x) - 1, x.mean(), stats.sem(x))
        assert (row["estimate"], row["low"], row["high"]) == pytest.approx((x.mean(), low, high), rel=1e-12)
        assert (row["level"], row["over"], row["unit"]) == (0.95, "seeds", "")
        assert (row["values"], row["wanted"], row["units"], len(row["run_ids"])) == (SEEDS, SEEDS, SEEDS, 2 * SEEDS)
        p = max(student(x), sign_flips(x))
        if min(x) > 0:  # all agree: the spread of all rows decides if it shows more
            p = min(p, student(x, max(np.std(x, ddof=1), spread)))
        assert row["p"] == row["tests"]["above zero"] == pytest.approx(p, rel=1e-9)
    assert min(changes("small")) > 0 > min(changes("large"))  # both rules are tried


def test_levels_are_corrected_by_holm_over_the_rows(claims):
    claim = claims["high"]
    ps = []
    for row in claim["rows"]:
        model, lr = row["row"].split(" · ")
        x = np.array([score(model, lr, seed) for seed in range(SEEDS)])
        ps.append(student(x) if student(x) > 0.5 else max(student(x), sign_flips(x)))
        assert row["estimate"] == pytest.approx(x.mean(), rel=1e-12) and row["unit"] == ""
    assert [row["p"] for row in claim["rows"]] == pytest.approx(ps, rel=1e-9)
    order, largest, holm = np.argsort(ps), 0.0, [0.0] * len(ps)
    for rank, at in enumerate(order):
        largest = holm[at] = max(largest, min(1.0, ps[at] * (len(ps) - rank)))
    assert [row["p_corrected"] for row in claim["rows"]] == pytest.approx(holm, rel=1e-9)
    assert claim["p"] == min(row["p_corrected"] for row in claim["rows"])
    assert [row["finding"] for row in claim["rows"]] == ["shown" if p <= 0.025 else "open" for p in holm]


def test_the_schema_describes_inherited_keys(plat):
    kinds = json.loads(plat("schema", "claims")[1])["$defs"]
    for key in ("verdict", "scale", "error_control", "rows", "p", "stands_over_all"):
        assert kinds["ClaimVerdict"]["properties"][key]["description"]
    assert kinds["RowOfVerdict"]["properties"]["p_corrected"]["description"]


def test_the_error_is_said(claims):
    helps, high = claims["helps"], claims["high"]
    assert helps["error_control"]["method"] == "every row" and helps["p"] == max(row["p"] for row in helps["rows"])
    assert high["error_control"] == {
        "method": "holm",
        "level": 0.025,
        "rows": 4,
        "looks": 1,
        "in_words": "one-sided at 2.5 %, Holm's procedure over 4 rows",
    }
    assert helps["claims_compared"] == high["claims_compared"] == 2 and helps["stands_over_all"] is False
    assert (helps["check"], helps["scale"], helps["word"]) == ("mean_delta_positive", "real scale, 8 seeds", "shown")
    assert (
        helps["options"]["smallest"] == 0.5 and "expect" not in helps["options"] and high["word"] == "shown in 1 of 4"
    )


def test_the_text_has_the_same_numbers(claims):
    for claim in claims.values():
        for row in claim["rows"]:
            ends = [re.escape(f"{row[key]:.2f}".replace("-", "−")) for key in ("estimate", "low", "high")]
            sign = r"\+?"
            assert re.search(sign + ends[0] + r" \[" + sign + ends[1] + ", " + sign + ends[2] + r"\]", claim["detail"])


def test_too_few_runs_have_no_numbers(plat, claimed_store):
    arguments = (claimed_store / "mine.yaml", "matrix.seed=[0,1]", "--home", claimed_store / "home", "--json")
    (claim, _) = json.loads(plat("claims", *arguments)[1])["claims"]
    assert claim["verdict"] == "not_enough_data" and claim["p"] is None and claim["scale"] == "real scale, 8 seeds"
    for row in claim["rows"]:
        assert row["finding"] == "without enough data" and row["tests"] == {}
        assert row["low"] is row["high"] is row["level"] is row["p"] is None and row["values"] == 2
        assert row["estimate"] == pytest.approx(changes(row["row"])[:2].mean())
