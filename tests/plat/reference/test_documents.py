"""`make results` in a checkout of its own: pages and numbers are those of the bundle."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tools.documents.pages import problems, write

from plat.errors import PlatError

TEMPLATE = """# Results

{{ table("small", "peak_success", lines=["peak", "final"]) }}

Bisecting: {{ change("small", "peak_success/laptop/column 4/delta") }} points at four guesses, by {{ runs("small") }}.
"""


@pytest.fixture
def repository(checkout) -> Path:
    """A checkout with a page that shows results of the bundle in results/."""
    (checkout / "docs" / "templates").mkdir(parents=True)
    (checkout / "docs" / "templates" / "page.md.j2").write_text(TEMPLATE)
    (checkout / "docs" / "by-hand.md").write_text("Nothing measured.\n")
    assert write(checkout) == ["docs/page.md written", "experiments/verdicts.json written", "docs/numbers.json written"]
    return checkout


def test_pages_are_written_from_the_bundle(repository):
    page = (repository / "docs" / "page.md").read_text()
    assert "| **laptop** | peak | **30.0** |" in page and "| **laptop** | final |" in page and "95 %" not in page
    assert "24 runs (6 seeds; trained with toy_hill_climber" in page
    numbers = json.loads((repository / "docs" / "numbers.json").read_text())["small"]
    value, low, high = numbers["numbers"]["peak_success/laptop/column 4/delta"]
    assert f"{value:+.1f} [" in page and low <= value <= high
    assert problems(repository) == [] and write(repository) == []


def test_the_command_checks_and_writes(repository):
    path = repository / "docs" / "page.md"
    path.write_text(path.read_text().replace("30.0", "31.0", 1))
    command = [sys.executable, "-m", "tools.documents", "--root", str(repository)]
    checked = subprocess.run([*command, "--check"], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 1 and checked.stdout.startswith(
        "docs/page.md:5: this is not what docs/templates/page.md.j2"
    )
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "docs/page.md written\n"
    assert "30.0" in path.read_text()


def test_runs_of_another_version_are_refused(repository):
    path = repository / "experiments" / "small.yaml"
    path.write_text(path.read_text().replace("climb.games: 20", "climb.games: 21"))
    with pytest.raises(PlatError, match="24 of 24 runs in the bundle are not those of") as error:
        problems(repository)
    assert "plat export" in (error.value.fix or "")


def test_a_damaged_bundle_is_refused(repository):
    shard = repository / "results" / "metrics-0001.parquet"
    shard.write_bytes(shard.read_bytes()[:-1])
    with pytest.raises(PlatError, match="instead of"):
        problems(repository)


def test_several_bundles_may_share_the_folder(repository):
    results = repository / "results"
    results.rename(repository / "small")
    results.mkdir()
    (repository / "small").rename(results / "small")
    file = repository / "experiments" / "small.yaml"
    file.write_text(file.read_text().replace("reference: ../results", "reference: ../results/small"))
    assert problems(repository) == []
