"""What a report leaves in MLflow: tags and two descriptions."""

from __future__ import annotations

import math

import pytest
from store_dump import descriptions, dump

from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.report_record import END, NOTE, REPORT, ReportRecord, experiment_note, report_tags
from plat.store.mlflow.run_tags import TAG_LENGTH

PLACE = "ragen2 · laptop"


@pytest.fixture
def filled(home, recipe, experiment):
    """A home with two imported runs of one file."""
    recipes = [recipe(1), recipe(2)]
    for item in recipes:
        item.write(home)
    file = experiment("table4", recipes)
    import_runs(home, home.store_uri(), [file])
    return home, file


def found(*claims, value=1.0):
    """A record of some claims, all of them partial."""
    tags = {f"plat.claim.{claim}": "shown_in_part" for claim in claims} | {
        f"plat.claim.{claim}.says": "It helps." for claim in claims
    }
    lines = "\n".join(f"- **partial** {claim}: It helps." for claim in claims)
    values = {(f"claim/{claim}/p", 0): 0.01 for claim in claims} | {("delta", 0): value}
    return ReportRecord(values, tags, f"{lines}\n\n2 of 2 runs have a result.")


def own_run(home, run):
    return mlflow_client(home.store_uri()).get_run(run).data


def test_the_same_report_twice_leaves_the_store_as_it_was(filled, tmp_path):
    home, file = filled
    page = tmp_path / "page.html"
    page.write_text("page")
    contents = []
    for _ in range(2):
        Store(home.store_uri(), home).log_report(file, {"page.html": page}, found("a", "b", value=math.nan))
        contents.append((dump(home.store_uri()), descriptions(home.store_uri())))
    assert contents[0] == contents[1]


def test_a_claim_that_is_gone_leaves_no_tag_and_no_number(filled):
    home, file = filled
    store = Store(home.store_uri(), home)
    run = store.log_report(file, {}, found("a", "b"))
    mlflow_client(home.store_uri()).set_tag(run, "mine", "kept")
    store.log_report(file, {}, found("b"))
    data = own_run(home, run)
    assert [key for key in data.tags if key.startswith("plat.claim.")] == ["plat.claim.b", "plat.claim.b.says"]
    assert data.tags["mine"] == "kept" and data.metrics["claim/b/p"] == 0.01
    assert math.isnan(data.metrics.get("claim/a/p", math.nan))  # of a server it cannot be deleted
    assert "- **partial** a:" not in data.tags[NOTE] + descriptions(home.store_uri())[PLACE]
    store.log_report(file, {})
    assert not {"plat.claim.b", REPORT} & own_run(home, run).tags.keys()


def test_the_descriptions_begin_with_the_verdicts(filled):
    home, file = filled
    run = Store(home.store_uri(), home).log_report(file, {}, found("a"))
    assert (
        own_run(home, run).tags[NOTE].startswith("- **partial** a: It helps.\n\n2 of 2 runs have a result.\n\n**The t")
    )
    assert descriptions(home.store_uri())[PLACE].startswith(
        "**Verdicts: 1 partial**\n\n**The title of table4** (`table4`)"
    )


def test_an_import_leaves_the_description_of_a_report(filled, recipe):
    home, file = filled
    run = Store(home.store_uri(), home).log_report(file, {}, found("a"))
    before = own_run(home, run).tags
    recipe(3).write(home)
    assert import_runs(home, home.store_uri(), [file]).imported == [recipe(3).id]
    assert own_run(home, run).tags == before


def test_each_file_has_a_part_of_its_own(filled, recipe, experiment):
    home, file = filled
    store = Store(home.store_uri(), home)
    other = experiment("table9", [recipe(1)])
    store.log_report(other, {}, found("other"))
    store.log_report(file, {}, found("a"))
    first = descriptions(home.store_uri())[PLACE]
    store.log_report(file, {}, found("b"))
    second = descriptions(home.store_uri())[PLACE]
    assert second == first.replace("- **partial** a:", "- **partial** b:")
    assert "**partial** other" in second and second.index("table4") < second.index("table9")


def test_what_a_user_writes_of_an_experiment_stays(filled):
    home, file = filled
    client = mlflow_client(home.store_uri())
    number = client.get_experiment_by_name(PLACE).experiment_id
    client.set_experiment_tag(number, NOTE, "my own words")
    for claim in "ab":
        Store(home.store_uri(), home).log_report(file, {}, found(claim))
        note = descriptions(home.store_uri())[PLACE]
        assert note.startswith("**Verdicts") and note.endswith(f"{END}\n\nmy own words")
    client.set_experiment_tag(number, NOTE, note + ", and more")
    Store(home.store_uri(), home).log_report(file, {}, found("a"))
    assert descriptions(home.store_uri())[PLACE].endswith(f"{END}\n\nmy own words, and more")


def part(name, claims):
    return {
        "plat.file": name,
        "plat.title": "T",
        REPORT: found(*(f"claim-{number}" for number in range(claims))).summary,
    }


@pytest.mark.parametrize(("files", "claims"), [(1, 500), (9, 40), (300, 3)])
def test_descriptions_fit_into_a_tag(files, claims):
    runs = [part(f"file-{number:03d}", claims) for number in range(files)]
    note = experiment_note(runs, "my own words")
    assert len(note) <= TAG_LENGTH and note.endswith("my own words")
    assert f"**Verdicts: {files * claims} partial**" in note and "more" in note
    assert note == experiment_note(runs[::-1], note)
    tags = report_tags(ReportRecord(summary=runs[0][REPORT]), "about")
    assert all(len(text) <= TAG_LENGTH for text in tags.values()) and tags[NOTE].endswith(
        "2 runs have a result.\n\nabout"
    )


def test_a_users_text_that_fills_the_tag_is_left_alone():
    words = "x" * TAG_LENGTH
    assert experiment_note([part("file", 3)], words) == words


def test_a_report_under_overrides_is_no_second_claim_of_its_file():
    shown = [part("file", 1), part("file@lr-0.1", 1), part("alone@lr-0.1", 1)]
    assert "**Verdicts: 2 partial**" in experiment_note(shown, "")
