"""`expect` beside a claim, `plat claims --check` and the badge."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import jsonschema
import pytest

FILE = """
title: Which policy climbs higher?
base: {trainer: toy_hill_climber, climb.games: 20, climb.iterations: 2}
matrix:
  policy: [wild, climber]
  seed: range(6)
claims:
  - {id: higher, check: mean_delta_positive, pair: policy, baseline: wild, treatment: climber%s}
  - {id: lower, check: mean_delta_positive, pair: policy, baseline: climber, treatment: wild%s}
"""


@pytest.fixture
def swept(plat, spec, toy):
    path = spec(FILE % ("", ""))
    assert plat("sweep", path, "-q")[0] == 0
    return {one["id"]: one["verdict"] for one in json.loads(plat("claims", path, "--json")[1])["claims"]}


def test_verdicts_that_differ_are_named_and_end_with_10(plat, spec, swept, tmp_path):
    first, second = (verdict.replace("_", " ") for verdict in swept.values())
    wrong = next(word for word in ("shown", "contradicted") if word not in (first, second))
    path = spec(FILE % (f", expect: {first}", f", expect: [{wrong}, not enough data]"))
    code, out, _ = plat("claims", path, "--check")
    assert code == 10 and f"lower: expected {wrong} or not enough data, found {second}" in " ".join(out.split())
    assert "as expected: 1 of 2 claims" in out and "higher" not in out
    code, out, _ = plat("claims", path, "--check", "--json", "--badge", tmp_path / "badge.svg")
    assert code == 10
    jsonschema.validate(json.loads(out), json.loads(plat("schema", "claims")[1]))
    assert [one["as_expected"] for one in json.loads(out)["claims"]] == [True, False]
    assert ElementTree.parse(tmp_path / "badge.svg").getroot().get("aria-label") == "claims: 1 of 2 not as expected"
    path = spec(FILE % (f", expect: [{first}]", ""))
    code, out, _ = plat("claims", path, "--check", "--badge", tmp_path / "badge.svg")
    assert code == 0 and "as expected: 1 of 1 claim; 1 other without `expect`" in out
    assert ElementTree.parse(tmp_path / "badge.svg").getroot().get("aria-label") == "claims: 1 as expected"


def test_an_expectation_changes_no_verdict_and_no_run(plat, spec, swept):
    path = spec(FILE % (", expect: reproduced", ", expect: open"))
    assert {one["id"]: one["verdict"] for one in json.loads(plat("claims", path, "--json")[1])["claims"]} == swept
    assert json.loads(plat("plan", path, "--json")[1])["counts"]["done"] == 12


@pytest.mark.parametrize("given", ["nonsense", "3", "[]", "[shown, 2]", "{a: b}"])
def test_a_wrong_expectation_is_refused_before_any_run(plat, spec, toy, given):
    code, _, err = plat("plan", spec(FILE % (f", expect: {given}", "")))
    assert code == 2 and "expect: " in err and "small.yaml:8:" in err


@pytest.mark.parametrize("badge", ["nowhere/badge.svg", "badge.png", "."])
def test_a_badge_that_cannot_be_written_is_refused_before_anything_is_judged(plat, spec, swept, badge):
    code, _, err = plat("claims", spec(FILE % ("", "")), "--badge", badge)
    assert code == 2 and "--badge" in err


def test_a_file_that_cannot_be_judged_hides_no_difference(plat, spec, swept):
    path = spec(FILE % (", expect: not enough data", ""))
    code, out, _ = plat("claims", path, "none.yaml", "--check", "--json")
    found = json.loads(out)
    assert code == 10 and found["failed"][0]["where"] == "none.yaml" and found["claims"][0]["as_expected"] is False


def test_check_without_any_expectation_is_refused(plat, spec, swept):
    code, _, err = plat("claims", spec(FILE % ("", "")), "--check")
    assert code == 2 and "expect: shown" in err
