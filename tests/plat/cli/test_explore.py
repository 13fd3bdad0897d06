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
        (text,) = re.findall(r'id="data">(.*?)</script>', page, re.S)
        folders = json.loads(text)["folders"]
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
