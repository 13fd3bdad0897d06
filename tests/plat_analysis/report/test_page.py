"""The page as its reader meets it: verdicts first, tables that a key and a screen reader can use, several files."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import pytest

from plat_analysis.claims.reference import Earlier
from plat_analysis.plugins.builders import Failure
from plat_analysis.report.build import build_report
from plat_analysis.report.report_files import joint_files, report_files

CLAIMS = [{"id": "helps", "check": "mean_delta_positive", "says": "The filter helps."}]
REPORT = [{"builder": "peak_success_table"}, {"builder": "learning_curves"}, {"builder": "paired_deltas"}]


@pytest.fixture
def report(make_experiment, make_frames):
    def make(name="table4", **options):
        experiment = make_experiment(
            rows=["PPO"], tasks=["sokoban"], seeds=range(3), report=REPORT, claims=CLAIMS, paper="ragen2", **options
        )
        experiment = replace(experiment, name=name, path=Path(f"{name}.yaml"), source="Table 4")
        return build_report(make_frames(experiment, steps=20), experiment)

    return make


def tree(content: bytes) -> Element:
    """The page as a tree: its void elements closed, and without the entities that XML lacks."""
    text = content.decode().partition("<!doctype html>")[2]
    for void in ("meta", "br"):
        text = text.replace(f"<{void}>", f"<{void}/>")
        text = "".join(
            part if index == 0 else f"<{void} {part.replace('>', '/>', 1)}"
            for index, part in enumerate(text.split(f"<{void} "))
        )
    return ElementTree.fromstring(text)


def text_of(element: Element) -> str:
    return " ".join("".join(element.itertext()).split())


def ids(root: Element) -> Iterator[str]:
    return (element.attrib["id"] for element in root.iter() if "id" in element.attrib)


def test_the_verdicts_come_first(report):
    root = tree(report_files(report())["report.html"])
    assert root.attrib["lang"] == "en" and text_of(root.find("head/title"))
    sections = root.findall("body/main/section")
    assert sections[0].attrib["id"] == "verdicts"
    (claim,) = sections[0].findall(".//ol/li")
    assert "The filter helps." in text_of(claim) and "not enough data" in text_of(claim)
    (link,) = claim.findall(".//a")
    assert link.attrib["href"] == f"#{sections[1].attrib['id']}" and text_of(link) == "Table 4"
    assert root.find("body/a").attrib["href"] == "#verdicts" and root.find("body/header/h1") is not None


def test_ours_beside_published_comes_before_the_rest(report):
    root = tree(report_files(report())["report.html"])
    headings = [element.attrib["id"] for element in root.iter("h4")]
    assert [name.partition("--")[2] for name in headings[:2]] == ["paired_deltas", "peak_success"]


def test_every_table_names_its_rows_and_columns(report):
    root = tree(report_files(report())["report.html"])
    names = set(ids(root))
    for table in root.iter("table"):
        assert table.attrib["aria-labelledby"] in names
        assert all(head.attrib["scope"] in ("col", "colgroup") for head in table.findall("thead/tr/th"))
        for row in table.findall("tbody/tr"):
            assert all(head.attrib["scope"] in ("row", "colgroup") for head in row.findall("th"))
        spans = [
            int(head.attrib.get("rowspan", 1))
            for head in table.iterfind("tbody/tr/th")
            if "stub" in head.attrib.get("class", "")
        ]
        sections = len(table.findall("tbody/tr[@class='section']"))
        assert sum(spans) == len(table.findall("tbody/tr")) - sections


def test_numbers_open_to_their_runs_by_click_and_key(report):
    made = report()
    root = tree(report_files(made)["report.html"])
    assert not [element for element in root.iter() if "title" in element.attrib]
    opened = [text_of(detail) for detail in root.iterfind(".//td/details") if detail.find("summary") is not None]
    assert opened and all(any(run.id in text for text in opened) for run in made.experiment.runs)
    links = [a.attrib["href"][1:] for a in root.iter("{http://www.w3.org/2000/svg}a")]
    assert links and set(links) <= set(ids(root))


def test_several_files_share_one_page(report):
    first, second = report("one"), report("two")
    wrong = Failure("unknown key 'bla'", "three.yaml:3:1", "remove it")
    files = joint_files([first, second], [wrong], "plat report one.yaml two.yaml three.yaml")
    root = tree(files["report.html"])
    sections = root.findall("body/main/section")
    assert [section.attrib["id"] for section in sections] == ["verdicts", "one", "two"]
    assert len(sections[0].findall(".//ol/li")) == 2 and "three.yaml:3:1" in text_of(sections[0])
    assert len(set(ids(root))) == len(list(ids(root)))
    assert [link.attrib["href"] for link in root.findall(".//nav//a")] == ["#one", "#two"]
    assert "plat report one.yaml two.yaml three.yaml" in text_of(root.find("body/footer"))
    assert [claim["experiment"] for claim in json.loads(files["claims.json"])["claims"]] == ["one", "two"]
    assert files == joint_files([report("one"), report("two")], [wrong], "plat report one.yaml two.yaml three.yaml")


def test_a_page_of_several_needs_no_measurements_any_more(report):
    kept, released = report("one"), report("one")
    for made in (kept, released):
        report_files(made)
    released.release()
    assert joint_files([released]) == joint_files([kept])


def test_the_main_claim_of_the_paper_stands_first(report):
    other, main = report("other"), report("main")
    main.experiment.paper_data["main_claim"] = "the-main-one"
    main.claims = [*main.claims, replace(main.claims[0], id="the-main-one", says="What it is about.")]
    root = tree(joint_files([other, main])["report.html"])
    assert "What it is about." in text_of(root.find(".//ol/li"))
    places = [section.attrib["id"] for section in root.findall("body/main/section")]
    assert places == ["main-claim", "verdicts", "main", "other"]
    answer = root.find("body/main/section[@id='main-claim']")
    assert answer.attrib["class"] == main.claims[-1].status and "What it is about." in text_of(answer)


def test_where_its_own_runs_are_too_few_earlier_ones_answer_the_main_claim(report):
    made = report()
    made.experiment.paper_data["main_claim"] = made.claims[0].id
    made.claims = [replace(made.claims[0], status="not_enough_data"), *made.claims[1:]]
    made.reference = {made.claims[0].id: Earlier("not of this size", "below 5 (t), 3 (flips)", "720 runs in docs/x")}
    answer = tree(report_files(made)["report.html"]).find("body/main/section[@id='main-claim']")
    text = " ".join(text_of(answer).split())
    assert answer.attrib["class"] == "not_of_this_size"
    assert "not of this size, by earlier runs of this project (720 runs in docs/x): below 5 (t), 3 (flips)." in text
    assert "The runs on this page alone cannot say" in text


def test_contradictions_of_the_artifact_are_named(report):
    text = report_files(report())["report.html"].decode()
    assert "Known contradictions" in text and "which alone fits the printed average" in text


def test_figures_have_text_that_can_be_read(report):
    files = report_files(report())
    assert b"<text" in files["paired_deltas.svg"] and b"published" in files["paired_deltas.svg"]
    assert files["paired_deltas.pdf"].startswith(b"%PDF")


def test_a_verdict_that_says_nothing_stands_below_those_that_do(report):
    silent, known, decided = report("silent"), report("known"), report("decided")
    known.reference = {known.claims[0].id: Earlier("shown_in_part", "above zero in 1 of 9", "720 runs in docs/x")}
    decided.claims = [replace(decided.claims[0], status="open")]
    root = tree(joint_files([silent, known, decided])["report.html"])
    links = [link.attrib["href"] for link in root.findall("body/main/section[@id='verdicts']/ol/li//a")]
    assert links == ["#known", "#decided", "#silent"]


def test_how_many_seeds_would_decide_and_the_judged_value_stand_beside_the_verdict(report):
    made = report()
    lines = ("above zero in 1 of 1", "a +1", "about 7 seeds would decide, if judged once; the spread is large")
    made.claims = [
        replace(made.claims[0], status="open", lines=lines, part=f"only: lr = {rate}", deciding=lines[0])
        for rate in (0.1, 0.3)
    ]
    first, second = tree(report_files(made)["report.html"]).findall(".//ol/li")
    assert "The filter helps (lr = 0.1)" in text_of(first) and "The filter helps (lr = 0.3)" in text_of(second)
    assert "To decide it: about 7 seeds would decide. " in text_of(first) and "spread" not in text_of(first)


def test_other_metrics_are_folded_and_the_fine_print_stands_once(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3), report=[], claims=[])
    made = build_report(make_frames(experiment, steps=20), experiment)
    made.artifacts[0].folded = True
    root = tree(report_files(made)["report.html"])
    folded = [text_of(item) for item in root.findall(".//details[@class='more']")]
    assert folded[0].startswith("Other metrics") and made.artifacts[0].title in folded[0]
    assert folded[-1].startswith("How intervals and stars are made") and text_of(root).count("a star requires") == 1


def test_the_words_of_the_file_stand_around_its_results(report):
    made = report()
    words = {"question": "Does <it> help?", "prediction": "It does.", "conclusion": "It did."}
    made = replace(made, experiment=replace(made.experiment, **words))
    files = report_files(made)
    section = text_of(tree(files["report.html"]).findall("body/main/section")[-1])
    places = [section.index(text) for text in ("Does <it> help?", "It does.", "Verdicts in full", "It did.")]
    assert places == sorted(places)
    page = files["report.md"].decode()
    order = ["Does &lt;it&gt; help?", "It does.", "](paired_deltas.svg)", "The filter helps.", "It did."]
    assert [page.index(text) for text in order] == sorted(page.index(text) for text in order)
    assert "Conclusion" not in report_files(report())["report.md"].decode()
