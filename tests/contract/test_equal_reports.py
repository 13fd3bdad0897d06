"""One report, byte for byte, from a SQLite file, from a server over a real PostgreSQL, and from a store of plat 0.4.

MLflow's own client finds it on the server, and reads the estimates that lie on the disk.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import mlflow
import pandas as pd
import pytest
from older_store import unpack
from stores import plat

FILE = "rates.yaml"
ENDED = re.compile(rb"newest run ended(: |</dt><dd>)[0-9: -]+ UTC")
FOUND = "metrics.`rates/measures/condition 0.2/loss` < 0.1 AND metrics.`rates/measures/condition 0.2/loss.low` > 0"


def files(folder: Path) -> dict[str, bytes]:
    """Name -> content of the files below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def report(home: str, *store: str) -> dict[str, bytes]:
    """The files of the report that a home gives: HTML, Markdown, CSV, JSON, LaTeX, SVG, PDF and PNG."""
    assert plat("report", FILE, "--home", home, *store) == 0
    return files(Path(home, "reports", "rates"))


def undated(content: dict[str, bytes]) -> dict[str, bytes]:
    """Without the one thing in which runs that were trained again differ: when the newest of them ended."""
    return {name: ENDED.sub(b"", data) for name, data in content.items()}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with the script, its file, and `plat-home` as plat 0.4 left it."""
    for name in ("PLAT_HOME", "MLFLOW_TRACKING_URI"):
        monkeypatch.delenv(name, raising=False)
    unpack(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
@pytest.mark.cluster
def test_the_report_is_the_same_from_every_store(server, here, monkeypatch):
    shutil.copytree("plat-home", "bare")
    shutil.rmtree("bare/runs")
    Path("bare/runs").mkdir()
    shutil.copytree("plat-home/runs", "directories/runs")
    shutil.copy("plat-home/home.json", "directories")

    assert plat("sweep", FILE, "--home", "swept") == 0
    in_a_file = report("swept")
    assert len(in_a_file) == 19 and {Path(name).suffix for name in in_a_file} == {
        f".{kind}" for kind in ("html", "md", "csv", "json", "tex", "svg", "pdf", "png")
    }
    assert plat("export", FILE, "--home", "swept", "--out", "bundle") == 0
    assert plat("import", "bundle", "--home", "team", "--store", server.url) == 0
    assert report("team", "--store", server.url) == in_a_file
    assert report("reader", "--store", server.url) == in_a_file  # a home that has none of the runs

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.url)  # from here on by MLflow's client alone
    found = mlflow.search_runs(search_all_experiments=True, filter_string=FOUND)
    [run], [experiment] = found.run_id, found.experiment_id
    assert files(Path(mlflow.artifacts.download_artifacts(run_id=run, artifact_path="report"))) == in_a_file
    estimates = mlflow.MlflowClient().load_table(experiment, "report/estimates.json", [run])
    on_disk = pd.read_json(Path("swept/reports/rates/estimates.json"), orient="split")
    pd.testing.assert_frame_equal(estimates, on_disk, check_exact=True)
    monkeypatch.delenv("MLFLOW_TRACKING_URI")

    from_older_directories = report("directories")
    assert undated(from_older_directories) == undated(in_a_file)
    assert report("plat-home") == from_older_directories  # converts the store of 0.4 from its directories
    assert plat("sync", "--convert", "--home", "bare") == 0  # and here through MLflow's client
    assert report("bare") == from_older_directories
