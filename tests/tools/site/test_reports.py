"""Pages of the site that are made from the bundles."""

from __future__ import annotations

from pathlib import Path

from tools.site.reports import report_pages

ROOT = Path(__file__).parents[3]


def test_an_experiment_has_a_page_with_its_words_and_pictures(monkeypatch):
    monkeypatch.setenv("REPORTS", "quickstart,nothing")
    pages = {name: (source, content) for name, source, content in report_pages(ROOT)}
    assert "[quickstart](quickstart/report.md)" in pages["reports/index.md"][1].decode()
    source, page = pages.pop("reports/quickstart/report.md")
    assert source == "experiments/quickstart.yaml" and b"**Question.**" in page and b"## Conclusion" in page
    pictures = [name for name in pages if name.endswith(".svg")]
    assert pictures and all(f"]({Path(name).name})".encode() in page for name in pictures)


def test_no_reports_but_the_index(monkeypatch):
    monkeypatch.setenv("REPORTS", "")
    assert [name for name, _, _ in report_pages(ROOT)] == ["reports/index.md"]
