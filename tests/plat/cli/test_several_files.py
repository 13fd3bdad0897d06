"""`plat report` and `plat claims` of several files at once, one of them with a mistake."""

from __future__ import annotations

import json

import pytest
from cli_files import GUESSING

CLAIMING = (
    GUESSING + "claims:\n  - {id: climbs, says: It climbs., check: toy_ends_above, better: climber, worse: wild}\n"
)


@pytest.fixture
def files(plat, spec, toy, tmp_path, monkeypatch):
    first = spec(CLAIMING)
    second, wrong = first.with_name("second.yaml"), first.with_name("wrong.yaml")
    second.write_text(CLAIMING.replace("A test", "Another"))
    wrong.write_text("title: x\nbla: 3\n")
    assert plat("sweep", first, second)[0] == 0
    return first, second, wrong


def test_one_page_for_all_and_one_for_each(plat, files, home):
    first, second, wrong = files
    code, out, err = plat("report", first, wrong, second)
    assert code == 3 and "unknown key 'bla'" in err and f"{wrong}:2:1" in err
    page = home / "reports" / "small+second" / "report.html"
    assert f"all of them on one page: {page}" in out.replace("\n", " ") or page.exists()
    text = page.read_text()
    assert "A test" in text and "Another" in text and "wrong.yaml:2:1" in text
    assert (home / "reports" / "small" / "report.html").exists()
    before = page.read_bytes()
    plat("report", first, wrong, second)
    assert page.read_bytes() == before


def test_a_page_under_overrides_stands_beside_the_one_without(plat, files, home):
    first, second, _ = files
    assert plat("report", first, second)[0] == 0
    before = {path: path.read_bytes() for path in (home / "reports").rglob("*") if path.is_file()}
    assert plat("report", first, second, "seed=1")[0] == 0
    assert {path: path.read_bytes() for path in before} == before
    assert [path for path in (home / "reports").glob("small+second@*")]


def test_a_page_goes_where_it_is_told_to(plat, files, tmp_path):
    first, second, _ = files
    assert plat("report", first, second, "--out", tmp_path / "out")[0] == 0
    assert (tmp_path / "out" / "report.html").exists() and (tmp_path / "out" / "small" / "runs.csv").exists()


def test_where_no_file_can_be_read_nothing_is_done(plat, files, home):
    wrong = files[2]
    other = wrong.with_name("other.yaml")
    other.write_text("title: y\nfoo: 1\n")
    code, out, err = plat("report", wrong, other)
    assert (code, out) == (2, "") and "bla" in err


def test_claims_without_a_file_are_those_of_the_folder(plat, files, tmp_path, monkeypatch):
    first, second, wrong = files
    folder = tmp_path / "work" / "experiments" / "deeper"
    folder.mkdir(parents=True)
    for path in (first, second):
        (folder / path.name).write_text(path.read_text())
    (folder / "silent.yaml").write_text(GUESSING)
    (folder / "search.yaml").write_text("title: s\nspace: {x: [1, 2]}\nclaims: [{id: never}]\n")
    monkeypatch.chdir(tmp_path / "work")
    code, out, err = plat("claims")
    assert code == 0, err
    assert "small: climbs" in out and "second: climbs" in out and "2 claims: " in out and "silent" not in out
    assert max(map(len, out.splitlines())) <= 80
    claims = json.loads(plat("claims", "--json")[1])["claims"]
    assert [claim["experiment"] for claim in claims] == ["second", "small"] and all(c["run_ids"] for c in claims)
    (folder / "wrong.yaml").write_text(wrong.read_text() + "claims: [{id: x}]\n")
    code, out, err = plat("claims")
    assert code == 3 and "wrong.yaml:2:1" in err and "2 claims: " in out


def test_an_error_of_all_files_is_said_once(plat, files, tmp_path):
    first, second, _ = files
    code, out, err = plat("claims", first, second, "--home", tmp_path / "new")
    assert (code, out) == (3, "") and err.count("there is no store yet") == 1


PAPER = """
title: A paper
claims:
  - id: goes-up
    says: Climbers climb.
    source: Table 1
    published: {climber: 3.5, wild: [1, 2]}
    tested_by: [small: climbs]
  - {id: again, says: They do it again., source: Table 2, tested_by: [small: climbs, unheard: of]}
  - {id: nobody-knows, says: Nobody knows., source: Figure 1, tested_by: [], open: A longer ladder.}
"""


def test_claims_without_a_file_stand_under_the_sentences_of_the_paper(plat, files, tmp_path, monkeypatch):
    first, second, _ = files
    folder = tmp_path / "work" / "experiments"
    (folder / "papers").mkdir(parents=True)
    (folder / "papers" / "mine.yaml").write_text(PAPER)
    for path in (first, second):
        (folder / path.name).write_text("paper: mine\n" + path.read_text())
    monkeypatch.chdir(tmp_path / "work")
    code, out, err = plat("claims")
    assert code == 0, err
    assert max(map(len, out.splitlines())) <= 80
    parts = ("## Climbers climb. (Table 1;", "small: climbs", "## They do it again.", "small: climbs, see above")
    parts += ("## Nobody knows.", "A longer ladder.")
    parts += ("## Claims of these files that test no claim of a paper", "second: climbs")
    places = [out.index(part) for part in parts]
    assert places == sorted(places) and "climber 3.5, wild 1 to 2" in " ".join(out.split())
    claims = json.loads(plat("claims", "--json")[1])["claims"]
    assert {c["experiment"]: c["paper_claims"] for c in claims} == {"second": [], "small": ["goes-up", "again"]}
    assert "##" not in plat("claims", folder)[1]


def test_a_claim_of_the_paper_that_cannot_be_read_is_named(plat, files, tmp_path, monkeypatch):
    folder = tmp_path / "work" / "experiments"
    (folder / "papers").mkdir(parents=True)
    (folder / "papers" / "mine.yaml").write_text("claims: [{says: x}]\n")
    (folder / "one.yaml").write_text("paper: mine\n" + files[0].read_text())
    monkeypatch.chdir(tmp_path / "work")
    code, _, err = plat("claims")
    assert code and "no id or sentence" in err and "papers/mine.yaml:1:10" in err


def test_a_report_that_replaces_that_of_another_file_of_the_same_name_is_named(plat, files, tmp_path):
    second = files[1]
    (tmp_path / "other").mkdir()
    other = tmp_path / "other" / second.name
    other.write_text(second.read_text().replace("Another", "A third"))
    assert "same name" not in plat("report", second)[2]
    code, _, err = plat("report", other)
    said = " ".join(err.split())
    assert code == 0 and f"{other}: its report replaces that of {second}, which has the same name" in said, said
    assert "same name" not in plat("report", other)[2]
