"""`make results`: the numbers of the pages are those of the bundle, and an edited digit is seen."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tools.documents.pages import problems, write

from plat.errors import PlatError

PAGE = """# Results

<!-- results: small table peak_success plain lines=peak,final -->
<!-- end -->

Bisecting: <!-- results: small value peak_success/laptop/4/delta signed --> <!-- end --> points at four guesses, by
<!-- results: small runs --><!-- end -->: <!-- results: small command --><!-- end -->. Write `<!-- results: WHAT -->`.
"""


@pytest.fixture
def repository(checkout) -> Path:
    """A checkout whose pages show results of the bundle in results/."""
    (checkout / "docs").mkdir()
    (checkout / "README.md").write_text("Nothing measured.\n")
    (checkout / "docs" / "results.md").write_text(PAGE)
    assert problems(checkout)[0] == (
        "docs/results.md:4: this is not what the bundles say; `make results` writes it again"
    )
    assert write(checkout) == ["docs/results.md written", "experiments/verdicts.json written"]
    return checkout


def test_regions_are_written_from_the_bundle(repository):
    page = (repository / "docs" / "results.md").read_text()
    assert "| **laptop** | peak | **30.0** |" in page and "| **laptop** | final |" in page and "95 %" not in page
    assert "24 runs (6 seeds; trained with toy_hill_climber" in page and "Write `<!-- results: WHAT -->`." in page
    assert "`plat sweep experiments/small.yaml 'matrix.seed=range(6)'`" in page
    assert problems(repository) == [] and write(repository) == []


def test_every_digit_that_is_edited_by_hand_is_seen(repository):
    path = repository / "docs" / "results.md"
    page = path.read_text()
    regions = [match.span(1) for match in re.finditer(r"-->(.*?)<!-- end", page, re.DOTALL)]
    digits = [i for start, end in regions for i in range(start, end) if page[i].isdigit()]
    assert len(digits) > 20
    for index in digits[:: max(1, len(digits) // 12)]:
        other = str((int(page[index]) + 1) % 10)
        path.write_text(page[:index] + other + page[index + 1 :])
        assert len(problems(repository)) == 1, page[index - 20 : index + 1]


def test_the_command_checks_and_writes(repository):
    path = repository / "docs" / "results.md"
    path.write_text(path.read_text().replace("30.0", "31.0", 1) + "It helps by +3.1 here.\n")
    command = [sys.executable, "-m", "tools.documents", "--root", str(repository)]
    checked = subprocess.run([*command, "--check"], capture_output=True, text=True, timeout=60)
    assert checked.returncode == 1 and len(checked.stdout.splitlines()) == 2
    assert "+3.1 looks measured and stands in no region" in checked.stdout
    assert subprocess.run(command, capture_output=True, text=True, timeout=60).stdout == "docs/results.md written\n"
    assert "30.0" in path.read_text()


@pytest.mark.parametrize(
    ("region", "said"),
    [
        ("small table nothing", "the report has no table 'nothing'"),
        ("small table peak_success lines=x", "has no line 'x'"),
        ("small table peak_success loud", "there is no option 'loud'"),
        ("small value no/such", "the report has no value 'no/such'"),
        ("small claims", "small claims nothing"),
        ("small verdict x", "the report has no claim 'x'"),
        ("small sum", "there is no kind of result 'sum'"),
        ("small", "names no result"),
        ("other claims", "no experiment file other.yaml"),
    ],
)
def test_a_region_that_names_nothing_is_refused_with_its_place(repository, region, said):
    (repository / "README.md").write_text(f"One.\nTwo <!-- results: {region} --><!-- end -->\n")
    with pytest.raises(PlatError, match=re.escape(said)) as error:
        write(repository)
    assert "README.md:2" in (error.value.where or "")


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


def test_a_region_shows_what_a_command_prints(repository):
    path = repository / "docs" / "other.md"
    path.write_text("<!-- results: python -c 'print(6 * 7)' -->\n<!-- end -->\n")
    assert write(repository) == ["docs/other.md written"] and "```text\n42\n```" in path.read_text()
    path.write_text("<!-- results: python -c 'print(\"| 42 |\")' -->\n<!-- end -->\n")
    write(repository)
    assert "\n\n| 42 |\n\n" in path.read_text() and problems(repository) == []
    path.write_text("<!-- results: python -c 'raise SystemExit(\"no luck\")' -->\n<!-- end -->\n")
    with pytest.raises(PlatError, match="failed: no luck"):
        write(repository)


def test_a_region_may_show_a_part_of_the_runs(repository):
    path = repository / "docs" / "other.md"
    path.write_text("It was <!-- results: small runs matrix.seed=[0,1] --><!-- end -->.\n")
    write(repository)
    assert "8 runs (2 seeds; trained with toy_hill_climber" in path.read_text() and problems(repository) == []
    path.write_text("It was <!-- results: small runs matrix.seed=[7] --><!-- end -->.\n")
    with pytest.raises(PlatError, match="4 of 4 runs are not in the bundle"):
        write(repository)
