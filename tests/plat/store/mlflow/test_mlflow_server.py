"""The same importer and reader against a real MLflow server over HTTP."""

from __future__ import annotations

import pandas as pd
import pytest
from mlflow_server import MlflowServer
from store_dump import descriptions, dump

from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.report_record import ReportRecord


@pytest.fixture
def server(tmp_path, empty_store):
    """URL of an `mlflow server` on a SQLite store of its own."""
    (tmp_path / "server").mkdir()
    database = tmp_path / "server" / "server.db"
    database.write_bytes(empty_store.read_bytes())
    server = MlflowServer(tmp_path / "server", f"sqlite:///{database}")
    try:
        server.start()
        yield server.url
    finally:
        server.end()


@pytest.mark.slow
def test_a_server_holds_the_same_as_a_file(server, make_home, recipe, experiment, tmp_path, capfd):
    recipes = [recipe(n, kills=[(6, 4)]) for n in range(3)]
    file = experiment("table4", recipes)
    report = tmp_path / "page.html"
    report.write_text("<p>report</p>")
    contents, frames = [], []
    for name in ("local", "remote"):
        home = make_home(name)
        uri = home.store_uri() if name == "local" else server
        paths = [item.write(home) for item in recipes]
        import_runs(home, uri, [file], paths[:2])
        import_runs(home, uri, [file])
        assert import_runs(home, uri, [file]).unchanged == 3
        record = ReportRecord({("delta", 0): 1.0}, {"plat.claim.a": "shown_in_part"}, "- **partial** a: it helps.")
        for _ in range(2):
            Store(uri, home).log_report(file, {"page.html": report}, record)
        contents.append((dump(uri), descriptions(uri)))
        frames.append(Store(uri, home).load(file))
    assert contents[0] == contents[1]
    assert contents[0][1]["ragen2 · laptop"].startswith("**Verdicts: 1 partial**")
    pd.testing.assert_frame_equal(frames[0].metrics, frames[1].metrics, check_exact=True)
    assert frames[0].tables.equals(frames[1].tables)
    differing = ["mlflow_id"]
    runs = [item.runs.drop(columns=differing, errors="ignore") for item in frames]
    pd.testing.assert_frame_equal(*runs)
    assert capfd.readouterr() == ("", ""), "MLflow prints nothing of its own"
