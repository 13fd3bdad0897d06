"""What the regions of a page show, from the real bundles of the repository."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from plat_analysis.documents.bundles import Bundles
from plat_analysis.documents.sources import content

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def bundles():
    return Bundles(ROOT)


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
