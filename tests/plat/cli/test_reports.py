"""A report is made when something it rests on has changed, and only then."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import time

from cli_files import GUESSING
from fresh_plat import fresh_plat
from store_dump import descriptions, dump

from plat.store.home import Home


def test_a_changed_report_is_made_again_without_running(plat, spec, home, toy):
    plat("sweep", spec(GUESSING))
    code, out, _ = plat("sweep", spec(GUESSING.replace("A test", "Another title")))
    assert code == 0 and "Another title" in out and "started" not in out


def test_a_mended_store_makes_the_report_anew(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    for file in (home / "mlartifacts").rglob("measured.parquet"):
        file.write_bytes(b"edited")
    assert plat("sweep", path)[1].startswith("nothing to do")
    assert "were written again" in plat("doctor", "--fix")[1]
    assert not plat("sweep", path)[1].startswith("nothing to do")


def test_an_edited_builder_of_another_package_makes_the_report_anew(spec, home, toy, toy_paper, tmp_path):
    site = shutil.copytree(toy_paper, tmp_path / "site")
    path = spec(GUESSING)

    def sweep() -> str:
        environment = {**os.environ, "PYTHONPATH": str(site)}
        done = fresh_plat("sweep", path, cwd=tmp_path, env=environment)
        assert done.returncode == 0, done.stderr
        return done.stdout

    sweep()
    assert sweep().startswith("nothing to do")
    builder = site / "toy_paper" / "report.py"
    builder.write_text(builder.read_text() + "# edited\n")
    assert not sweep().startswith("nothing to do")
    assert sweep().startswith("nothing to do")
    # another copy of the same version: another environment, another checkout
    site = shutil.copytree(site, tmp_path / "copy")
    assert not sweep().startswith("nothing to do")


def test_a_report_under_overrides_has_a_place_and_a_run_of_its_own(plat, spec, home, toy):

    path = spec(GUESSING)
    plat("sweep", path)
    own = {file.name: file.read_bytes() for file in (home / "reports" / "small").iterdir()}
    for command in (["sweep", path, "climb.games=3", "seed=1"], ["report", path, "seed=1", "climb.games=3"]):
        code, out, err = plat(*command)
        assert code == 0, err
        places = {folder.name for folder in (home / "reports").iterdir() if folder.is_dir()}
        assert len(places) == 2
        (other,) = places - {"small"}
        assert other.startswith("small@climb.games-3-seed-1-") and other in out
        page = (home / "reports" / other / "report.html").read_text()
        assert f"plat report {os.path.relpath(path)} {' '.join(command[2:])}" in page and "toy-paper 0.0.1" in page
    assert {file.name: file.read_bytes() for file in (home / "reports" / "small").iterdir()} == own
    assert plat("sweep", path)[1].startswith("nothing to do")
    plat("sweep", path, "seed=1")
    assert plat("sweep", path, "seed=1")[1].startswith("nothing to do")
    shutil.rmtree(home / "reports" / next(name.name for name in (home / "reports").glob("small@seed*")))
    assert not plat("sweep", path, "seed=1")[1].startswith("nothing to do")
    with sqlite3.connect(home / "mlflow.db") as database:
        names = {name for (name,) in database.execute("select value from tags where key = 'plat.file'")}
    database.close()
    assert {"small", other} <= names and len(names) == 3


def test_the_report_of_a_read_only_home_is_printed_and_nothing_is_written(plat, spec, home, toy, tmp_path, monkeypatch):
    path = spec(GUESSING)
    plat("sweep", path)
    shutil.rmtree(home / "reports")
    may = os.access
    monkeypatch.setattr(os, "access", lambda place, mode: mode != os.W_OK and may(place, mode))
    code, out, _ = plat("report", path)
    assert code == 0 and "A test" in out and "nothing was written: " in out and "--out DIR" in out
    assert not (home / "reports").exists()
    code, out, _ = plat("report", path, "--out", tmp_path / "elsewhere")
    assert code == 0 and (tmp_path / "elsewhere" / "report.html").exists() and "nothing was written" not in out
    assert plat("claims", path)[0] == 0


def test_report_and_claims_need_no_run_directories(plat, spec, home, toy, tmp_path):
    path = spec(GUESSING)
    plat("sweep", path)
    (home / "runs").rename(tmp_path / "moved")
    for out in ("one", "two"):
        assert plat("report", path, "--out", tmp_path / out)[0] == 0
    first, second = ({p.name: p.read_bytes() for p in (tmp_path / name).iterdir()} for name in ("one", "two"))
    assert first == second and "report.html" in first
    assert json.loads(plat("claims", path, "--json")[1]) == {"claims": [], "notes": [], "failed": []}


CLAIMING = (
    GUESSING + "claims:\n  - {id: climbs, says: It climbs., check: toy_ends_above, better: climber, worse: wild}\n"
)


def test_a_report_is_recorded_the_same_every_time(plat, spec, home, toy, monkeypatch):
    path = spec(CLAIMING)
    plat("sweep", path)
    contents = []
    for zone in ("UTC", "Asia/Kathmandu"):
        with monkeypatch.context() as patch:
            patch.setenv("TZ", zone)
            time.tzset()
            assert plat("report", path)[0] == 0
        contents.append((dump(Home(home).store_uri()), descriptions(Home(home).store_uri())))
    time.tzset()
    assert contents[0] == contents[1]
    ((place, description),) = contents[0][1].items()
    own = contents[0][0][place]["file small"]
    assert (
        own["tags"]["plat.claim.climbs"] in ("shown", "contradicted", "open") and "claim/climbs/value" in own["latest"]
    )
    assert own["tags"]["mlflow.note.content"].startswith(f"- **{own['tags']['plat.claim.climbs']}** climbs: It climbs.")
    assert description.startswith(f"**Verdicts: 1 {own['tags']['plat.claim.climbs']}**")
    assert "report/report.html" in own["artifacts"]


def test_a_report_that_is_not_recorded_leaves_the_store_alone(plat, spec, home, toy, tmp_path):
    path = spec(CLAIMING)
    plat("sweep", path)
    store = Home(home).store_uri()
    before = (dump(store), descriptions(store))
    spec(CLAIMING.replace("It climbs.", "Nothing else."))
    code, out, _ = plat("report", path, "--no-record", "--out", tmp_path / "out")
    assert code == 0 and "Nothing else." in out and "Nothing else." in (tmp_path / "out" / "claims.json").read_text()
    assert (dump(store), descriptions(store)) == before
    plat("report", path)
    assert dump(store) != before[0]


def test_a_report_that_is_not_recorded_names_what_the_store_lacks(plat, spec, home, toy, empty_store):
    path = spec(CLAIMING)
    plat("sweep", path)
    shutil.copy(empty_store, home / "mlflow.db")
    code, out, _ = plat("report", path, "--no-record")
    assert code == 0 and "warning: 2 runs with a result are not in the store yet; `plat sync` copies them." in out
    assert not any(dump(Home(home).store_uri()).values())
