"""`plat status`, `plat why`, `plat logs` and `plat retry`."""

from __future__ import annotations

import contextlib
import io
import json
import shlex
from pathlib import Path

from cli_files import GUESSING

from plat.runner.execution import execute
from plat.spec.expansion.experiment import load_experiment
from plat.store.disk.durable import to_checked_json
from plat.store.home import Home
from plat.store.run_directory import lease
from plat.store.run_directory.artifact_files import save_artifact
from plat.store.run_directory.creation import create
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import read_run


def test_why_says_the_identity_in_words(plat, home):
    """A fingerprint is shown without Python's brackets, its long hashes cut."""
    from plat.cli.verbs.why import _fingerprint_words

    facts = {"base": {"sha256": "06f687f8f34c427678a98aa4245b87ac"}, "environment": "1", "data": {}}
    assert _fingerprint_words(facts) == ["base sha256 06f687f8f34c", "environment 1"]


def test_why_shows_what_a_run_has_left_behind(plat, executed):
    run = executed()
    kept = save_artifact(run.attempt(1), "model", lambda folder: (folder / "config.json").write_text("{}"))
    assert f"artifact model: 1 file, 2 B, in {kept.path}" in " ".join(plat("why", run.id)[1].split())
    shown = json.loads(plat("why", run.id, "--json")[1])["artifacts"]
    assert shown == {"model": {"path": str(kept.path), "files": 1, "bytes": 2, "sha256": kept.sha256}}


def test_how_to_mend_a_failure_is_said_wherever_it_is_shown(plat, home):
    code, _, err = plat("run", "trainer=plat_toy:Toy", "recipe=broken")
    assert code == 3 and "fix: choose another" in " ".join(err.split())
    (run,) = home.glob("runs/*/*")
    for verb in (["status"], ["status", "--json"], ["why", run.name]):
        assert "the recipe is broken; fix: choose another" in " ".join(plat(*verb)[1].split()), verb


def test_status_logs_why_and_sync(plat, spec, home, toy):
    path = spec(GUESSING)
    code, out, _ = plat("status", path)
    assert code == 0 and "2 missing" in out and [file.name for file in home.iterdir()] == ["mlflow.db"]
    plat("sweep", path)
    assert "2 done" in plat("status", path)[1] and "2 done" in plat("status")[1]
    states = json.loads(plat("status", path, "--json")[1])["runs"]
    assert {run["state"] for run in states} == {"done"}
    run_id = states[0]["id"]
    for name in (run_id, run_id[:6], states[0]["name"]):
        code, out, _ = plat("why", name)
        assert code == 0 and run_id in out
    assert "policy" in out and "'wild'" in out and "'climber'" in out  # how it differs from the nearest
    assert plat("logs", run_id)[0] == 0
    assert "0 runs brought up to date, 2 up to date already" in plat("sync")[1]


def test_a_failed_run_is_said_and_can_be_tried_again(plat, spec, home, toy):
    path = spec(GUESSING.replace("climb.games: 5", "climb.games: 0"))  # a division by zero
    code, _, err = plat("sweep", path)
    assert code == 3 and "2 of 2 runs are not done" in err and "failed:error" in err
    code, out, err = plat("sweep", path)
    assert code == 3 and "started" not in out  # it would fail again
    assert plat("status", path)[0] == 3
    code, out, _ = plat("retry", path, "--where", "policy=wild")
    assert code == 3 and out.count("started") == 1
    code, _, err = plat("retry", path, "--where", "polcy=wild")
    assert code == 2 and "policy" in err
    run_id = json.loads(plat("status", path, "--json")[1])["runs"][0]["id"]
    assert "ZeroDivisionError" in plat("logs", run_id, traceback=True)[1]
    assert "failed:error" in plat("why", run_id)[1]


def test_retry_takes_an_axis_given_twice_as_either_value(plat, spec, home, toy):
    path = spec(GUESSING.replace("climb.games: 5", "climb.games: 0").replace("seed: [0]", "seed: [0, 1, 2]"))
    plat("sweep", path)
    code, out, _ = plat("retry", path, "--where", "seed=0", "--where", "seed=2", "--where", "policy=wild")
    assert code == 3 and out.count("started") in (1, 2) and "s1-" not in out  # the second may not begin any more


def test_retry_takes_the_name_or_the_id_of_a_run(plat, spec, home, toy):
    path = spec(GUESSING.replace("climb.games: 5", "climb.games: 0"))
    plat("sweep", path)
    first, second = json.loads(plat("status", path, "--json")[1])["runs"]
    for arguments in ((first["id"][:6],), (first["name"],), (first["id"], second["id"], "--where", "policy=wild")):
        code, out, _ = plat("retry", *arguments)
        assert code == 3 and out.count("started") == 1, arguments
    code, _, err = plat("retry", "nothing")
    assert code == 2 and "no run 'nothing'" in err
    code, _, err = plat("why", "wild-s0")
    meant = [name for name in (first["name"], second["name"]) if name.startswith("wild")]
    assert code == 2 and f"did you mean {', '.join(meant)}?" in err and "climber" not in err


def test_what_goes_on_with_a_cancelled_run_is_no_retry(plat, executed):
    """What a sweep says at its end, and what `plat retry` says then."""
    from plat.cli.screen.failure_words import conclude
    from plat.dispatch.sweep_ends import RunEnd, SweepReport

    run = executed()
    run.result.unlink()
    outcome = json.loads(run.attempt(1).outcome.read_text())
    del outcome["checksum"]
    cancelled = outcome | {"outcome": "cancelled", "reason": "cancelled"}
    run.attempt(1).outcome.write_bytes(to_checked_json(cancelled))
    assert "1 run is interrupted: the next `plat sweep` resumes" in plat("retry", run.id)[1]
    ended = {state: RunEnd(read_run(run), state, reason="why") for state in ("interrupted", "failed")}
    for states, retried in ((["interrupted"], False), (["failed"], True), (["failed", "interrupted"], True)):
        err = io.StringIO()
        with contextlib.redirect_stderr(err):
            assert conclude(SweepReport({state: ended[state] for state in states})) == 3
        assert ("plat retry" in err.getvalue()) == retried
        assert ("next `plat sweep` resumes" in err.getvalue()) == ("interrupted" in states)
    refused = RunEnd(read_run(run), "missing", "refused", "it asks for 4 GPUs")
    with contextlib.redirect_stderr(err := io.StringIO()):
        assert conclude(SweepReport({"refused": refused})) == 3
    assert "nothing was started: change what was refused" in err.getvalue() and "resumes" not in err.getvalue()


def test_why_says_of_an_attempt_that_goes_on_that_it_does(plat, executed):
    run = executed()
    run.result.unlink()
    run.attempt(1).outcome.unlink()
    held = lease.take(run)
    assert "attempt 1  is active" in plat("why", run.id)[1]
    held.release()
    said = plat("why", run.id)[1]
    assert "attempt 1  did not record its end (killed)" in said and "still running" not in said


def test_retry_checks_the_report_before_anything_runs(plat, spec, home, toy):
    path = spec(GUESSING.replace("climb.games: 5", "climb.games: 0"))
    plat("sweep", path)
    attempts = len(list(home.glob("runs/*/*/attempts/*")))
    path.write_text(path.read_text() + "    nmae: x\n")
    code, _, err = plat("retry", path)
    assert code == 2 and "nmae" in err and len(list(home.glob("runs/*/*/attempts/*"))) == attempts


def test_status_shows_its_runs_and_folds_many(plat, spec, home, toy, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    path = spec(GUESSING)
    plat("sweep", path)
    code, out, _ = plat("status", path)
    lines = out.splitlines()
    assert code == 0 and lines[0] == "small: 2 done of 2" and lines[2].split()[0] == "run"
    assert len(lines) == 5 and all("finished" in line and "2/2" in line for line in lines[3:])
    code, out, _ = plat("status", path, "matrix.seed=range(30)")
    assert "2 done, 58 missing of 60" in out and "not shown: 2 done, 58 missing (--all" in out
    assert "finished" not in out and len(out.splitlines()) == 4
    assert len(plat("status", path, "matrix.seed=range(30)", "--all")[1].splitlines()) == 64


def test_status_calls_a_run_preparing_while_what_it_needs_is_made(plat, spec, home):
    from plat.store.coordination.preparations import announced

    path = spec("title: A test\nmatrix:\n  variant: {a: {trainer: 'plat_toy:Toy', recipe: r}}\n  seed: [0, 1]\n")
    place = Home(home).create()
    with announced(place, "prepare:plat_toy:Toy:r", "recipe r"):
        code, out, _ = plat("status", path)
        assert code == 0 and "2 preparing of 2" in out and "preparing recipe r, for" in out
        states = [run["state"] for run in json.loads(plat("status", path, "--json")[1])["runs"]]
        assert states == ["preparing", "preparing"]
    assert "2 missing of 2" in plat("status", path)[1]


def test_status_says_why_each_run_is_missing_and_what_it_cost(plat, executed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    runs = [executed(seed=seed, mischief="error") for seed in (0, 1)] + [executed(seed=2)]
    code, out, _ = plat("status")
    assert code == 3 and "1 done, 2 failed of 3" in out and "of work done" in out
    words = " ".join(out.split())  # the line is broken at 80 columns
    assert "2 failed: failed:error: ValueError: a mistake in the toy (" in words and "`plat retry` tries again" in words
    names = [json.loads(run.meta.read_text())["name"] for run in runs]
    assert all(name in out for name in names)
    listed = {run["name"]: run for run in json.loads(plat("status", "--json")[1])["runs"]}
    assert [bool(listed[name]["why"]) for name in names] == [True, True, False]


def test_status_knows_what_is_left_from_what_was_done(plat, spec, home):
    text = "title: A test\nbase: {trainer: 'plat_toy:Toy'}\nmatrix:\n  seed: [0, 1]\n"
    path, place = spec(text), Home(home).create()
    first, _ = load_experiment(path).runs
    execute(place, create(place, first, "small").id)
    out = plat("status", path)[1]
    assert "1 missing: never started; `plat sweep` starts it" in out and "to go" in out
    other = text + "  scale: [toy, other]\n"
    assert "time to go not known yet" in plat("status", spec(other, "other.yaml"))[1]


GUESS = ("trainer=toy_hill_climber", "climb.games=5", "climb.iterations=2", "policy=wild")


def killed(home: Path) -> RunPaths:
    """The only run of a home, as if its process had been killed before it could say how it ended."""
    (run,) = Home(home).all_runs()
    run.result.unlink()
    run.attempts()[-1].outcome.unlink()
    return run


def command_in(said: str) -> list[str]:
    """The words of the command that `plat why` gives, without `plat`."""
    (line,) = [line for line in said.splitlines() if line.startswith("  go on ")]
    program, *words = shlex.split(line.removeprefix("  go on "))
    assert program == "plat"
    return words


def test_a_run_of_no_file_goes_on_with_the_command_that_why_gives(plat, home, toy, monkeypatch):
    assert plat("run", *GUESS)[0] == 0
    run = killed(home)
    said = plat("status")[1]
    assert "1 interrupted: the process vanished; the same `plat run` resumes" in said and "plat sweep" not in said
    assert "`plat run`" in json.loads(plat("status", "--json")[1])["runs"][0]["why"]
    monkeypatch.delenv("PLAT_HOME")
    monkeypatch.chdir(home.parent.parent)  # where another home would be used
    said = plat("why", run.id, "--home", home)[1]
    assert "plat sweep" not in said
    assert plat(*command_in(said))[0] == 0 and run.result.exists()
    assert "go on" not in plat("why", run.id, "--home", home)[1]


def test_options_that_make_another_run_are_no_command(plat, home, toy):
    assert plat("run", *GUESS)[0] == 0
    run = killed(home)
    meta = json.loads(run.meta.read_text())
    run.meta.write_text(json.dumps({**meta, "axes": {**meta["axes"], "policy": "climber"}}))
    assert command_in(plat("why", run.id)[1])[:2] == ["run,", "with"]


def test_a_home_that_is_a_file_is_refused(plat, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = plat("status", "--home", str(tmp_path / "file"))
    assert (code, out) == (2, "") and "the home directory is a file" in err
