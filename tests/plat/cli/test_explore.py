"""`plat report` writes the page of the runs beside the report, with links that lead to their folders."""

from __future__ import annotations

import json
import re

import pytest
from cli_files import GUESSING

from plat.app.exploring import server

pytest.importorskip("bokeh", reason="the extra `explore` is not installed")


def test_the_page_lies_beside_the_report_and_its_links_lead_to_runs(plat, spec, home, toy, tmp_path):
    path = spec(GUESSING)
    assert plat("sweep", path)[0] == 0
    elsewhere = tmp_path / "a" / "b"
    code, out, err = plat("report", path, "--out", str(elsewhere))
    assert code == 0, err
    assert f"report: {elsewhere / 'report.html'}, beside it explore.html" in out
    assert not (home / "reports" / "small" / "explore.html").exists(), "a sweep does not take the seconds for it"
    assert plat("report", path)[0] == 0
    for folder in (home / "reports" / "small", elsewhere):
        page = (folder / "explore.html").read_text(encoding="utf-8")
        folders = data_of(folder / "explore.html")["folders"]
        assert folders and all((folder / one / "config.yaml").is_file() for one in folders)
        assert str(tmp_path) not in page, "a page holds no absolute path"
    assert not list((home / "mlartifacts").rglob("explore.html")) and list((home / "mlartifacts").rglob("report.html"))


def test_without_the_extra_nothing_changes_and_a_mistake_leaves_the_report(plat, spec, home, toy, monkeypatch):
    path = spec(GUESSING)
    monkeypatch.setattr("plat_analysis.explore.page_file.PACKAGES", ("no-such-package",))
    assert plat("sweep", path)[0] == 0
    folder = home / "reports" / "small"
    assert not (folder / "explore.html").exists()

    def broken(*_):
        raise KeyError("planted")

    monkeypatch.setattr("plat_analysis.explore.page_file.explorer_files", broken)
    code, out, err = plat("report", path)
    assert code == 3 and "planted" in (folder / "report.html").read_text() and "planted" in out + err


def data_of(page):
    (text,) = re.findall(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"), re.S)
    return json.loads(text)


FILE = """
title: {title}
base: {{trainer: script, script.command: "python3 score.py --x {{x}} --seed {{seed}}", script.metric: score}}
"""
SCORE = """import json, sys
x, seed = float(sys.argv[2]), int(sys.argv[4])
print(json.dumps({"step": 0, "score": x * x + 0.001 * seed}))
"""


@pytest.fixture
def script(tmp_path):
    (tmp_path / "score.py").write_text(SCORE)


def test_several_files_have_one_page_with_each_run_once(plat, spec, home, toy, script):
    first = spec(FILE.format(title="A") + "matrix: {x: [1, 2], seed: [0, 1]}\n", "first.yaml")
    second = spec(FILE.format(title="B") + "matrix: {x: [2, 3], seed: [0, 1]}\n", "second.yaml")
    assert plat("sweep", first, "-q")[0] == plat("sweep", second, "-q")[0] == 0
    code, _, err = plat("report", first, second, "-q")
    assert code == 0, err
    data = data_of(home / "reports" / "first+second" / "explore.html")
    (file,) = [axis for axis in data["axes"] if axis["label"] == "file"]
    assert len(set(data["ids"])) == 6 and file["values"] == ["first", "first + second", "second"]
    assert sorted(file["codes"]) == [0, 0, 1, 1, 2, 2] and not any(data["missing"])
    assert sorted(data["metrics"][0]["last"]) == pytest.approx([1, 1.001, 4, 4.001, 9, 9.001])


def test_a_search_has_a_page_with_the_importance_of_optuna(plat, spec, home, toy, script):
    optuna = pytest.importorskip("optuna", reason="the extra `search` is not installed")
    space = "space: {args.x: {float: [0.0, 3.0]}, args.unused: {float: [0.0, 1.0]}}\n"
    path = spec(FILE.format(title="S") + f"{space}objectives: [{{maximize: score}}]\ntrials: 9\nseeds: [0]\n")
    path.write_text(path.read_text().replace("--seed {seed}", "--seed {seed} --u {unused}"))
    page = home / "reports" / "small" / "explore.html"
    assert plat("tune", path)[0] == 0 and not page.exists()  # of nine trials
    assert plat("tune", path, "trials=12")[0] == 0
    text = page.read_text(encoding="utf-8")
    assert len(data_of(page)["ids"]) == 12 and "fANOVA by Optuna over 12 complete trials" in text
    study = optuna.load_study(study_name="small", storage=f"sqlite:///{home / 'studies.db'}")
    evaluator = optuna.importance.FanovaImportanceEvaluator(seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    assert shares["args.x"] > 0.8 and f"{100 * shares['args.x']:.1f} %" in text
    assert not list((home / "mlartifacts").rglob("explore.html"))


@pytest.mark.parametrize(
    ("uri", "address"),
    [
        ("sqlite:////home/mlflow.db", ""),
        ("http://host:5000", "http://host:5000"),
        ("https://me:secret@host/mlflow?token=x", "https://host/mlflow"),
    ],
)
def test_the_address_of_a_server_has_no_secret(uri, address):
    assert server(uri) == address
