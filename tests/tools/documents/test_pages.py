"""Pages are what their templates and the bundles of the repository say, and a mistake in either is found."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from tools.documents.pages import NUMBERS, filled, problems
from tools.documents.values import Values

from plat.errors import SpecError

ROOT = Path(__file__).parents[3]
PAPER = Path("docs/paper.md")


@pytest.fixture
def root(tmp_path) -> Path:
    """A copy of what is written: pages, templates, pictures, numbers, verdicts."""
    shutil.copy(ROOT / "README.md", tmp_path)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copytree(ROOT / "results" / "published", tmp_path / "results" / "published")
    (tmp_path / "experiments").mkdir()
    shutil.copy(ROOT / "experiments" / "verdicts.json", tmp_path / "experiments")
    return tmp_path


def shown(bundles, tmp_path, text: str) -> str:
    template = tmp_path / "docs" / "templates" / "page.md.j2"
    template.parent.mkdir(parents=True, exist_ok=True)
    template.write_text(text)
    return filled(template, tmp_path, Values(bundles, tmp_path, draw=False).functions(Path("docs/page.md")))


@pytest.mark.long
def test_every_edited_number_is_found_at_its_line(bundles, root):
    assert problems(root, bundles) == []
    places = []
    for page, right, wrong in (
        ("README.md", "five fresh builds", "six fresh builds"),
        ("docs/paper.md", "+11.5 [+9.0", "+12.5 [+9.0"),
        ("docs/tasks.md", "5.5 [", "5.6 ["),
        (str(NUMBERS), '"verdicts": {', '"verdict": {'),
        ("experiments/verdicts.json", "shown_in_part", "shown"),
    ):
        text = (root / page).read_text()
        assert right in text, f"{page}: {right} is not there"
        (root / page).write_text(text.replace(right, wrong, 1))
        places.append(f"{page}:{text.count(chr(10), 0, text.index(right)) + 1}")
    assert sorted(line.split(": ")[0] for line in problems(root, bundles)) == sorted(places)


def test_a_template_shows_what_the_report_says(bundles, tmp_path):
    results = bundles.report("quickstart")
    (verdict,) = results.claims
    text = shown(
        bundles,
        tmp_path,
        '{{ change("quickstart", "claim/filter-helps/grpo") }}|{{ verdict("quickstart", "filter-helps") }}',
    )
    change, word = text.split("|")
    assert word == verdict.word and any(change in line for line in verdict.lines)
    assert shown(bundles, tmp_path, '{{ number("quickstart", "claim/filter-helps/grpo", 0, True) }}') == "+12"
    table = shown(bundles, tmp_path, '{{ table("quickstart", "measures", lines=["mean"]) }}')
    assert "| **no filter** | mean |" in table and "95 %" not in table
    assert shown(bundles, tmp_path, '{{ runs("quickstart") }}').startswith("10 runs (5 seeds; trained with")


def test_the_output_of_a_command_is_code_or_a_table(bundles, tmp_path):
    assert shown(bundles, tmp_path, "{{ output(\"-c 'print(6 * 7)'\") }}") == "```text\n42\n```"
    assert shown(bundles, tmp_path, "{{ output(\"-c 'print(chr(124), 42)'\") }}") == "| 42"


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ('number("quickstart", "claim/filter-helps/ppo")', "the report has no number 'claim/filter-helps/ppo'"),
        ('change("quickstart", "claim/filter-helps/p")', "has no interval"),
        ('verdict("quickstart", "filter-helpz")', "the report has no claim 'filter-helpz'"),
        ('table("quickstart", "nothing")', "the report has no table 'nothing'"),
        ('table("quickstart", "measures", lines=["x"])', "has no such line"),
        ('figure("quickstart", "learning_curves_success")', "is not drawn from these numbers"),
        ('runs("nonsense")', "there is no experiment file nonsense.yaml"),
        ("output(\"-c 'raise SystemExit(1)'\")", "failed"),
        ("sum(1)", "'sum' is undefined"),
        ("runs(", "unexpected"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_file_and_line(bundles, tmp_path, expression, said):
    with pytest.raises(SpecError, match=re.escape(said)) as error:
        shown(bundles, tmp_path, f"One.\nTwo {{{{ {expression} }}}}.\n")
    assert (error.value.where or "").startswith("docs/templates/page.md.j2:2")


def test_an_exchanged_picture_is_found(bundles, tmp_path):
    images = tmp_path / "docs" / "images"
    images.mkdir(parents=True)
    name = "quickstart-learning_curves_success.png"
    shutil.copy(ROOT / "docs" / "images" / name, images)
    assert f"](images/{name})" in shown(bundles, tmp_path, '{{ figure("quickstart", "learning_curves_success") }}')
    shutil.copy(ROOT / "docs" / "images" / "second_look-collapse.png", images / name)
    with pytest.raises(SpecError, match="is not drawn from these numbers"):
        shown(bundles, tmp_path, '{{ figure("quickstart", "learning_curves_success") }}')


def test_pages_have_no_marks_and_stay_short():
    pages = [
        ROOT / "README.md",
        *(page for page in (ROOT / "docs").glob("*.md") if page.name != "cli.md"),
    ]  # help texts
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in pages}
    assert sum(words.values()) <= 45_000 and words["paper.md"] <= 1_500
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 120
    assert not [page.name for page in pages if re.search("<!-- (results|given)", page.read_text(encoding="utf-8"))]


def test_a_verdict_has_at_most_thirty_words():
    committed = json.loads(Path("experiments/verdicts.json").read_text())
    said = [f"{one['verdict']}: {one['found']}" for file in committed.values() for one in file["claims"].values()]
    assert max(len(text.split()) for text in said) <= 30 and len(said) > 100
