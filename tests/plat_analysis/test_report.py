"""The whole report: same bytes twice, no network, atomic writing, clear errors; claims."""

from __future__ import annotations

import csv
import io
import json
import re
from html.parser import HTMLParser

import pytest
from rich.console import Console

from plat.errors import HomeError, SpecError
from plat_analysis.claims.checks import mean_delta_positive
from plat_analysis.claims.engine import Verdict, check_claims
from plat_analysis.report import build_report

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
    return make_experiment(rows=["PPO", "GRPO"], tasks=["sokoban"], seeds=range(3), report=REPORT, claims=CLAIMS)


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
        found = dict(attributes)
        self.follows += [v for k, v in attributes if k in ("src", "href", "xlink:href", "srcset", "data", "action")]
        self.ids += [found["id"]] if "id" in found else []
        self.titles += [found["title"]] if "title" in found else []
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
    first, second = build_report(frames, experiment).files(), build_report(frames, experiment).files()
    assert first == second
    names = {name.rsplit(".", 1)[-1] for name in first}
    assert names == {"md", "csv", "tex", "svg", "png", "json", "html"}
    assert {"paired_deltas.svg", "paired_deltas-2.svg", "collapse.png", "runs.csv", "claims.json"} <= set(first)


def test_the_order_of_rows_in_the_frames_does_not_matter(table_only, make_frames):
    frames = make_frames(table_only)
    before = build_report(frames, table_only).files()
    frames.runs = frames.runs.iloc[::-1].reset_index(drop=True)
    assert build_report(frames, table_only).files() == before


def test_the_page_needs_nothing_but_itself(experiment, frames):
    report = build_report(frames, experiment)
    text = report.files()["report.html"].decode()
    page = Page()
    page.feed(text)
    assert page.open == [] and len(page.ids) == len(set(page.ids))
    assert all(target.startswith("#") for target in page.follows) and page.follows
    assert {target[1:] for target in page.follows} <= set(page.ids)
    assert "<script" not in text and "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    addresses = set(re.findall(r"https?://[^\"' )<]+", text))
    assert all(address.startswith("http://www.w3.org/") for address in addresses)  # names of XML, never fetched
    assert any(run.id in title for title in page.titles for run in experiment.runs)
    assert "The filter helps &lt;on average&gt;" in text and text.count("<svg") == 5
    assert re.search(r"<title>PPO × Sokoban: [^<]*runs ", text)  # tooltips of the dots
    assert "2026" not in text and "20:" not in text.split("<svg")[0]


def test_written_files_are_whole_and_replace_old_ones(table_only, make_frames, tmp_path):
    frames = make_frames(table_only)
    report = build_report(frames, table_only)
    (tmp_path / "report.html").write_text("old")
    (tmp_path / "mine.txt").write_text("kept")
    files = report.write(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*files, "mine.txt"}
    assert files["report.html"].read_text().startswith("<!doctype html>")
    lines = list(csv.DictReader(io.StringIO(files["runs.csv"].read_text())))
    assert [line["run_id"] for line in lines] == [run.id for run in table_only.runs]
    assert lines[0]["model_that_ran"] == "stand-in, 105k"


def test_a_folder_that_cannot_be_written_is_told(table_only, make_frames, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(HomeError, match="cannot write the report"):
        build_report(make_frames(table_only), table_only).write(tmp_path / "file")


def test_values_have_names_that_mlflow_accepts(experiment, frames):
    values = build_report(frames, experiment).values
    assert values["peak_success/PPO/sokoban/delta"] == pytest.approx(values["peak_success/PPO/sokoban/delta"])
    assert all(re.fullmatch(r"[A-Za-z0-9_./ -]+", name) and isinstance(v, float) for name, v in values.items())


def test_print_shows_tables_and_verdicts(table_only, make_frames):
    console = Console(width=120, record=True, file=open("/dev/null", "w"))
    build_report(make_frames(table_only), table_only).print(console)
    text = console.export_text()
    assert "Peak validation success" in text and "helps: The filter helps <on average> for every row." in text


def test_a_report_of_an_empty_store_says_so(experiment, make_frames, tmp_path):
    frames = make_frames(experiment, holes={run.id: "absent" for run in experiment.runs})
    files = build_report(frames, experiment).write(tmp_path)
    assert "not run" in files["report.html"].read_text()
    verdict = json.loads(files["claims.json"].read_text())["claims"][0]
    assert (verdict["id"], verdict["verdict"]) == ("helps", "not_enough_data")


@pytest.mark.parametrize(
    "report, message, mend",
    [
        ([{"builder": "peak_sucess_table"}], "unknown report builder", "did you mean 'peak_success_table'"),
        ([{"builder": "collapse", "colour": "red"}], "unknown argument 'colour'", "arguments: pair"),
        ([{"rows": "variant"}], "names no builder", "add `builder"),
    ],
)
def test_wrong_report_entries(make_experiment, make_frames, report, message, mend):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], report=report)
    with pytest.raises(SpecError, match=message) as error:
        build_report(make_frames(experiment), experiment)
    assert mend in error.value.mend and "report[0]" in error.value.where


def test_wrong_claims(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO"], tasks=["sokoban"], claims=[{"id": "x", "check": "mean_delta_posit"}])
    with pytest.raises(SpecError, match="unknown claim check") as error:
        check_claims(make_frames(experiment), experiment)
    assert "claims[0]" in error.value.where
    with pytest.raises(ValueError, match="unknown verdict"):
        Verdict("maybe")


@pytest.mark.parametrize(
    "effects, expected",
    [
        ((0.3, 0.3), "reproduced"),
        ((0.3, 0.0), "partial"),
        ((-0.3, 0.3), "not_reproduced"),
        ((-0.3, -0.3), "not_reproduced"),
    ],
)
def test_mean_delta_positive(make_experiment, make_frames, effects, expected):
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["frozenlake", "countdown"])
    frames = make_frames(experiment, effect=0.0)
    for row, effect in zip(("PPO", "GRPO"), effects, strict=True):
        pairs = [r for r in experiment.runs if r.axes["variant"] == row]
        for none, treated in zip(pairs[::2], pairs[1::2], strict=True):
            shift(frames, none.id, treated.id, effect)
    verdict = mean_delta_positive(frames, experiment)
    assert verdict.status == expected, verdict.detail
    assert set(verdict.value) == {"PPO", "GRPO"} and len(verdict.run_ids) == 8


def shift(frames, source, target, effect):
    """Make the target's evaluations those of the source, with a share of instances flipped by the effect."""
    n = round(256 * abs(effect)) + 2
    frames.tables = frames.tables.copy()
    rows = frames.tables[(frames.tables.name == "val_instances")]
    for _, _, name, step, data in rows[rows.run_id == source].itertuples():
        success = list(data["success"])
        flipped = [i for i, s in enumerate(success) if s == (0 if effect >= 0 else 1)][:n]
        for i in flipped:
            success[i] = 1 - success[i]
        place = (frames.tables.run_id == target) & (frames.tables.name == name) & (frames.tables.step == step)
        frames.tables.loc[place, "data"] = [{"success": success}]
        at = (frames.metrics.run_id == target) & (frames.metrics.key == "val/success") & (frames.metrics.step == step)
        frames.metrics.loc[at, "value"] = sum(success) / len(success)


def test_a_claim_with_a_hole_has_not_enough_data(make_experiment, make_frames):
    experiment = make_experiment(rows=["PPO", "GRPO"], tasks=["frozenlake"])
    frames = make_frames(experiment, holes={experiment.runs[0].id: "failed:nan"})
    verdict = mean_delta_positive(frames, experiment)
    assert verdict.status == "not_enough_data" and "failed:nan" in verdict.detail
    assert mean_delta_positive(frames, experiment, only=["GRPO"]).status in ("reproduced", "partial")
