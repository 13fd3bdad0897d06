"""The paper's claims: each has a source, and is tested by claims that exist, or says what would decide it."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
PAPER = yaml.safe_load((EXPERIMENTS / "papers" / "ragen2.yaml").read_text(encoding="utf-8"))
FILES = {path.stem: path for path in EXPERIMENTS.rglob("*.yaml") if path.parent.name != "papers"}
CLAIMS = PAPER["claims"]


def test_there_are_enough_and_each_has_one_name():
    ids = [claim["id"] for claim in CLAIMS]
    assert len(ids) >= 25 and len(set(ids)) == len(ids)
    assert len({claim["says"] for claim in CLAIMS}) == len(ids)


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim["id"])
def test_a_claim_is_tested_by_what_exists_or_is_open(claim):
    assert set(claim) <= {"id", "says", "source", "published", "tested_by", "open"}
    assert claim["says"].endswith(".") and claim["source"]
    assert claim["tested_by"] or claim["open"], "nothing tests it, and nothing says what would decide it"
    for test in claim["tested_by"]:
        ((stem, name),) = test.items()
        assert stem in FILES, f"no experiment file {stem}.yaml"
        known = [entry["id"] for entry in yaml.safe_load(FILES[stem].read_text(encoding="utf-8")).get("claims", [])]
        assert name in known, f"{stem}.yaml has no claim {name}: {', '.join(known)}"
