"""The whole report: same bytes twice, no network, atomic writing, clear errors; claims."""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from importlib.metadata import EntryPoint
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from plat.errors import HomeError, PluginError, SpecError
from plat_analysis.artifact import Cell, Column, Figure, Row, Table
from plat_analysis.claims.engine import Verdict, check_claims
from plat_analysis.plugins import builders
from plat_analysis.report.build import build_report
from plat_analysis.report.page import page as html_page
from plat_analysis.report.report import Provenance
from plat_analysis.report.report_files import report_files, write_report
from plat_analysis.report.terminal import print_report

REPORT = [
    {"builder": "peak_success_table", "rows": "variant", "columns": "task", "pair": "filter"},
    {"builder": "paired_deltas"},
    {"builder": "paired_deltas", "heldout": True},
    {"builder": "learning_curves", "metrics": ["val/success", "mi/first_turn/retrieval_acc"]},
    {"builder": "collapse"},
]
CLAIMS = [{"id": "helps", "check": "mean_delta_positive", "says": "The filter helps <on average> for every row."}]


@pytest.fixture
def experiment(make_experiment):
    return make_experiment(rows=["PPO"], tasks=["sokoban"], seeds=range(3), report=REPORT, claims=CLAIMS)


@pytest.fixture
def frames(experiment, make_frames):
    return make_frames(experiment, steps=30)


@pytest.fixture
def table_only(make_experiment):
    return make_experiment(rows=["PPO"], tasks=["sokoban"], report=REPORT[:1], claims=CLAIMS)


class Page(HTMLParser):
    """Collects what a browser would follow, and checks that tags are closed."""

    VOID = frozenset({"meta", "br", "path", "use", "rect", "link", "img", "hr", "input"})

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.follows, self.titles = [], [], [], []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.follows += [v for k, v in attributes if k in ("src", "href", "xlink:href", "srcset", "data", "action")]
        self.ids += [named["id"]] if "id" in named else []
        self.titles += [named["title"]] if "title" in named else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        if tag not in self.VOID:
            assert self.open.pop() == tag


def test_two_rebuilds_are_byte_identical(experiment, frames):
    first, second = report_files(build_report(frames, experiment)), report_files(build_report(frames, experiment))
    assert first == second
    names = {name.rsplit(".", 1)[-1] for name in first}
    assert names == {"md", "csv", "tex", "svg", "pdf", "png", "json", "html"}
    assert {"paired_deltas.svg", "paired_deltas-2.svg", "collapse.png", "runs.csv", "claims.json"} <= set(first)


def test_the_order_of_rows_in_the_frames_does_not_matter(table_only, make_frames):
    frames = make_frames(table_only)
    before = report_files(build_report(frames, table_only))
    frames.runs = frames.runs.iloc[::-1].reset_index(drop=True)
    assert report_files(build_report(frames, table_only)) == before


def test_the_page_needs_nothing_but_itself(experiment, frames):
    report = build_report(frames, experiment)
    text = report_files(report)["report.html"].decode()
    page = Page()
    page.feed(text)
    assert page.open == [] and len(page.ids) == len(set(page.ids))
    assert all(target.startswith("#") for target in page.follows) and page.follows
    assert {target[1:] for target in page.follows} <= set(page.ids)
    assert "<script" not in text and "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    addresses = set(re.findall(r"https?://[^\"' )<]+", text))
    assert all(address.startswith("http://www.w3.org/") for address in addresses)  # names of XML, never fetched
    assert page.titles == [] and all(run.id in text for run in experiment.runs)
    assert "The filter helps &lt;on average&gt;" in text and text.count("<svg") == 5
    assert re.search(r'<a href="#[^"]*delta-0-runs"><title>PPO × Sokoban: ', text)  # a dot leads to its numbers
    assert re.search(r'<li id="[^"]*delta-0-runs">PPO × Sokoban: [^<]*runs ', text)
    assert "2026" not in text and "20:" not in text.split("<svg")[0]


def test_written_files_are_whole_and_replace_old_ones(table_only, make_frames, tmp_path):
    frames = make_frames(table_only)
    report = build_report(frames, table_only)
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    files = write_report(report, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*files, "mine.txt"}
    assert files["report.html"].read_text().startswith("<!doctype html>")
    lines = list(csv.DictReader(io.StringIO(files["runs.csv"].read_text())))
    assert [line["run_id"] for line in lines] == [run.id for run in table_only.runs]
    assert lines[0]["model_that_ran"] == "stand-in, 105k"


def test_a_folder_that_cannot_be_written_is_an_error(table_only, make_frames, tmp_path):
    (tmp_path / "file").write_text("in the way")
    report = build_report(make_frames(table_only), table_only)
    for place in (tmp_path / "file", tmp_path / "file" / "below", Path("/dev/null")):
        with pytest.raises(HomeError, match="is not a folder") as error:
            write_report(report, place)
        assert error.value.where == str(place) and error.value.fix == "name a folder with --out DIR"
    with pytest.raises(HomeError, match="cannot write the report"):
        write_report(report, Path("/proc/report"))


def test_values_have_names_that_mlflow_accepts(experiment, frames):
    values = build_report(frames, experiment).values
    assert values["peak_success/PPO/sokoban/delta"] == pytest.approx(values["peak_success/PPO/sokoban/delta"])
    assert all(re.fullmatch(r"[A-Za-z0-9_./ -]+", name) and isinstance(v, float) for name, v in values.items())


def test_print_shows_tables_and_verdicts(table_only, make_frames):
    console = Console(width=120, record=True, file=io.StringIO())
    print_report(build_report(make_frames(table_only), table_only), console)
    text = console.export_text()
    assert "Peak validation success" in text and "helps: The filter helps <on average> for every row." in text


def test_a_report_of_an_empty_store_says_so(experiment, make_frames, tmp_path):
    frames = make_frames(experiment, holes={run.id: "absent" for run in experiment.runs})
    files = write_report(build_report(frames, experiment), tmp_path)
    assert "not run" in files["report.html"].read_text()
    verdict = json.loads(files["claims.json"].read_text())["claims"][0]
    assert (verdict["id"], verdict["verdict"]) == ("helps", "not_enough_data")


NASTY = "a $broken^{ mathtext $ \x1b[31m \ud800 <script>alert(1)</script> =HYPERLINK(1) " + 80 * "long "


def test_whatever_a_title_or_a_label_holds_is_shown_as_text(make_experiment, make_frames):
    rows = [NASTY, NASTY + "2", "=HYPERLINK(1)"]
    experiment = make_experiment(rows=rows, tasks=["sokoban"], seeds=range(2), title=NASTY, source=NASTY, claims=CLAIMS)
    experiment = replace(experiment, report=[entry for entry in REPORT if entry["builder"] != "collapse"])
    report = build_report(make_frames(experiment, steps=20), experiment)
    files = report_files(report)
    assert report.failures == []
    for name, content in files.items():
        if not name.endswith((".png", ".pdf")):
            text = content.decode()
            assert "\x1b" not in text
            assert "<script>" not in text or name.endswith((".csv", ".json")), name
    for name in files:
        if name.endswith(".svg"):
            ElementTree.fromstring(files[name])
    lines = list(csv.DictReader(io.StringIO(files["peak_success.csv"].decode())))
    assert {line["row"] for line in lines} >= {"'=HYPERLINK(1)"}
    assert all(float(line["value"]) > -100 for line in lines if line["value"]), "numbers stay numbers"
    console = Console(width=120, record=True, file=io.StringIO())
    print_report(report, console)
    assert "\x1b" not in console.export_text()


def test_one_artifact_that_fails_leaves_the_others(table_only, make_frames, monkeypatch):
    def broken_builder(frames, experiment):
        raise ZeroDivisionError("no such number")

    def broken_figure(frames, experiment):
        return [Figure("pic", "a picture", draw=lambda: 1 / 0, points=[{"x": 1}])]

    real = builders.find
    broken = {"broken": broken_builder, "undrawable": broken_figure}
    monkeypatch.setattr(builders, "find", lambda group, name, where: broken.get(name) or real(group, name, where))
    entries = [{"builder": "broken"}, {"builder": "undrawable"}, *REPORT[:1]]
    experiment = replace(table_only, report=entries, claims=[{"id": "bad", "check": "broken"}, *CLAIMS])
    report = build_report(make_frames(experiment), experiment)
    files = report_files(report)
    assert {"peak_success.csv", "pic.csv", "report.html"} <= set(files) and "pic.svg" not in files
    assert [verdict.id for verdict in report.claims] == ["helps"]
    whats = [failure.what for failure in report.failures]
    assert "no such number" in whats[0] and "'bad'" in whats[1] and "'pic'" in whats[2]
    assert all("table4.yaml" in failure.where for failure in report.failures)
    assert "could not be made" in files["report.html"].decode()
    assert len(report.failures) == len([report_files(report), report.failures][1]), "drawing twice names a failure once"


def test_the_page_says_where_it_comes_from(table_only, make_frames):
    frames = make_frames(table_only)
    frames.runs["tag.plat.ended"] = ["2026-01-02 03:04:05 UTC", "2026-01-01 00:00:00 UTC"]
    frames.runs["tag.plat.trainer"] = "embedded 2.0"
    provenance = Provenance("plat report table4.yaml filter.eps=0", ("filter.eps=0",), {"plat": "0.2.0"})
    page = report_files(build_report(frames, table_only, provenance))["report.html"].decode()
    shown = ("plat report table4.yaml filter.eps=0", "laptop", "2026-01-02 03:04:05 UTC", "embedded 2.0", "plat 0.2.0")
    assert all(text in page for text in shown)
    plain = report_files(build_report(frames, table_only))["report.html"].decode()
    assert "plat report table4.yaml" in plain and "overrides" not in plain


@pytest.mark.parametrize(
    "report, message, fix",
    [
        ([{"builder": "peak_sucess_table"}], "unknown report builder", "did you mean 'peak_success_table'"),
        ([{"builder": "collapse", "colour": "red"}], "unknown argument 'colour'", "arguments: pair"),
        ([{"rows": "variant"}], "names no builder", "add `builder"),
    ],
)
def test_wrong_report_entries(make_experiment, make_frames, report, message, fix):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], report=report)
    with pytest.raises(SpecError, match=message) as error:
        build_report(make_frames(experiment), experiment)
    assert fix in error.value.fix and "table4.yaml" in error.value.where


def test_wrong_claims(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], claims=[{"id": "x", "check": "mean_delta_posit"}])
    with pytest.raises(SpecError, match="unknown claim check") as error:
        check_claims(make_frames(experiment), experiment)
    assert "table4.yaml" in error.value.where
    with pytest.raises(ValueError, match="unknown verdict"):
        Verdict("maybe")


def printed(report, quiet=False):
    console = Console(width=100, file=io.StringIO(), color_system=None)
    print_report(report, console, quiet)
    return console.file.getvalue()


def test_without_a_report_verdicts_come_first_then_one_table_with_intervals_beside_means(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], report=[], claims=CLAIMS)
    report = build_report(make_frames(experiment), experiment)
    text = printed(report)
    assert text.splitlines()[0].rstrip().endswith("helps: The filter helps <on average> for every row.")
    assert text.count("─\n") == 1 and "Top-p" in text and " 95 % " not in text.partition("─\n")[2]
    assert not any(run.id in text for run in experiment.runs) and "Holm" not in text
    assert "No change has a star" not in text
    assert report_files(report)["report.html"].decode().count("No change has a star") == 1
    assert printed(report, quiet=True).count("helps:") == 1 and "─" not in printed(report, quiet=True)


def test_runs_that_did_not_finish_are_counted(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], report=[], claims=[])
    holes = {experiment.runs[0].id: "absent"}
    assert "did not finish" not in printed(build_report(make_frames(experiment), experiment))
    assert "runs that did not finish: 1 not run" in printed(
        build_report(make_frames(experiment, holes=holes), experiment)
    )


def test_a_page_of_a_file_without_a_paper_compares_with_none(make_experiment, make_frames):
    for paper in ("ragen2", None):
        experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], report=[], claims=[], paper=paper)
        shown = html_page([build_report(make_frames(experiment), experiment)])
        assert "small stand-ins" in shown and ("compare signs and orders with the paper" in shown) == bool(paper)


def test_a_table_without_records_has_its_rows_in_the_csv(table_only, make_frames, monkeypatch):
    columns = [Column("task", numeric=False), Column("mean", group="loss")]
    made = Table("own", "Own", columns, [Row((Cell("sokoban"), Cell("0.5")))])
    monkeypatch.setattr(builders, "find", lambda group, name, where: lambda frames, experiment: made)
    table_only.report[:], table_only.claims[:] = [{"builder": "own"}], []
    files = report_files(build_report(make_frames(table_only), table_only))
    assert files["own.csv"] == b"task,loss mean\nsokoban,0.5\n"


def test_a_row_of_another_width_than_its_table_is_named_with_its_builder(table_only, make_frames, monkeypatch):
    def narrow(frames, experiment):
        return Table("own", "Own", [Column("task"), Column("mean")], [Row((Cell("sokoban"),))])

    monkeypatch.setattr(builders, "find", lambda group, name, where: narrow)
    table_only.report[:], table_only.claims[:] = [{"builder": "own"}], []
    (failure,) = build_report(make_frames(table_only), table_only).failures
    assert "row 1 of the table 'own' has 1 cell for 2 columns" in failure.what
    assert failure.where.startswith(f"{__file__}:{narrow.__code__.co_firstlineno}")


def test_what_is_published_as_a_builder_and_is_no_function_is_refused(monkeypatch):
    point = EntryPoint("own", "plat_analysis.artifact:DASH", "plat.reports")
    monkeypatch.setattr(builders, "entry_points", lambda group: [point])
    with pytest.raises(PluginError, match=r"'own' in plat\.reports is '—', not a function") as error:
        builders.find("plat.reports", "own", "file.yaml:3:1")
    assert "artifact.py:" in error.value.where and "(named at file.yaml:3:1)" in error.value.where
