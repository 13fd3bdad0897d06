"""What was damaged, removed or edited is named, and fixed by the same command."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from cli_files import GUESSING, results_of

from plat.store.disk.durable import exchange
from plat.store.measured import NAME, decode, encode


def test_a_meta_file_of_another_shape_is_written_again(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    meta = next(home.glob("runs/*/*/meta.json"))
    meta.write_text(json.dumps({**json.loads(meta.read_text()), "axes": 3, "checksum": None}))
    code, _, err = plat("retry", "--where", "seed=7")
    assert code in (0, 2) and "meta.json is missing or damaged" in err
    assert plat("sync")[0] == 3
    meta.with_name("result.json").unlink()
    assert plat("sweep", path)[0] == 0 and json.loads(meta.read_text())["axes"]["seed"] == 0


def test_a_removed_store_is_noticed_and_filled_again(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    done = results_of(home)
    for file in home.glob("mlflow.db*"):
        file.unlink()
    code, out, _ = plat("sweep", path)
    assert code == 0 and not out.startswith("nothing to do") and "started" not in out
    assert results_of(home) == done and (home / "mlflow.db").exists()
    assert plat("sweep", path)[1].startswith("nothing to do")


def test_a_damaged_run_is_named_and_the_exit_code_says_it(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    for file in home.glob("mlflow.db*"):
        file.unlink()
    events = next(home.glob("runs/*/*/attempts/001/events.jsonl"))
    events.write_bytes(events.read_bytes().replace(b'"step":1', b'"step":2', 1))
    run = events.parents[2].name
    for verb in ("sync", "sweep", "report", "claims"):
        code, _, err = plat(verb, path)
        assert code == 3 and run in err and "events.jsonl line 2 is damaged" in err, (verb, err)


def test_a_damaged_result_and_an_edited_config_are_mended_and_named(plat, spec, home, toy):
    path = spec(GUESSING)
    table = plat("sweep", path)[1]
    first, second = sorted(home.glob("runs/*/*/result.json"))
    first.write_text("")
    second.unlink()
    config = second.parent / "config.yaml"
    text = config.read_text()
    config.write_text(text.replace("games: 5", "games: 6"))
    code, out, err = plat("sweep", path)
    assert code == 0 and table[table.index("A test") :] in out
    assert f"result.json is damaged ({first})" in err and f"it is now {config}.damaged-1" in err
    assert json.loads(first.read_text())["outcome"] == "finished" and config.read_text() == text


@pytest.mark.parametrize("edit", [lambda text: text.replace("games: 5", "games: 6"), lambda text: "[", None])
def test_the_config_of_a_finished_run_is_mended_by_a_sweep(plat, spec, home, toy, edit):
    """`plat why` names the damage and the cure; the cure, a sweep, works and runs nothing."""
    path = spec(GUESSING)
    plat("sweep", path)
    config = sorted(home.glob("runs/*/*/config.yaml"))[0]
    text, run = config.read_text(), config.parent.name
    if edit is None:
        config.unlink()
    else:
        config.write_text(edit(text))
    damaged = json.loads(plat("why", run, "--json")[1])["damage"]
    assert "config" in damaged
    shown = "".join(plat("why", run)[1].split())  # long lines are broken to the width of the terminal
    assert "".join(damaged.split()) in shown and "`platsweep`oftheexperimentfile" in shown
    code, out, err = plat("sweep", path)
    assert code == 0 and "started" not in out and config.read_text() == text
    assert ("config.yaml was damaged or edited" in err) == (edit is not None)
    assert json.loads(plat("why", run, "--json")[1])["damage"] == ""


def test_import_names_the_same_cure_for_an_edited_config(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    config = sorted(home.glob("runs/*/*/config.yaml"))[0]
    config.write_text(config.read_text().replace("games: 5", "games: 6"))
    for file in home.glob("mlflow.db*"):
        file.unlink()
    code, _, err = plat("sync", path)
    assert code == 3 and "`plat sweep` of the experiment file (or the same `plat run`) writes it again" in err
    assert plat("sweep", path)[0] == 0 and plat("sync", path)[0] == 0


def change_a_value(home):
    """The id of a run of which the store says something else than its directory."""
    path = sorted((home / "mlartifacts").rglob(NAME))[0]
    run = decode(path.read_bytes())
    metrics, tables = run.history()
    path.write_bytes(encode(run.facts, [row._replace(value=0.999) for row in metrics], tables))
    return run.facts["tags"]["plat.id"]


def test_a_value_that_was_changed_in_the_store_is_brought_back_by_the_report(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    whole = plat("report", path)[1]
    run = change_a_value(home)
    code, out, err = plat("report", path)
    assert code == 0 and out == whole and "changed in the store" in err and run in err
    assert plat("report", path)[1:] == (whole, "")


def test_a_changed_run_whose_directory_is_gone_is_named_and_left_out(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    run = change_a_value(home)
    shutil.rmtree(home / "runs" / run[:2] / run)
    for verb in ("report", "claims"):
        code, out, err = plat(verb, path)
        assert code == 3 and f"run {run} was changed in the store" in err and "99.9" not in out


def test_a_run_that_was_deleted_in_mlflow_is_called_so_in_the_table(plat, spec, home, toy):
    path = spec(GUESSING.partition("report:")[0])
    whole = plat("sweep", path)[1]
    for stage in ("deleted", "active"):
        with closing(sqlite3.connect(home / "mlflow.db")) as store, store:
            run = "(SELECT min(run_uuid) FROM tags WHERE key = 'plat.id')"
            store.execute(f"UPDATE runs SET lifecycle_stage = '{stage}' WHERE run_uuid = {run}")
        out = plat("report", path)[1]
        assert ("deleted in MLflow" in out) == (stage == "deleted") and "not run" not in out
        said = "".join(plat("doctor", "--deep")[1].split())
        assert ("mlflowgc--tracking-uri" in said and "&&platsync" in said) == (stage == "deleted")
    assert out[out.index("on the page") :] == whole[whole.index("on the page") :]


@pytest.mark.parametrize("both", [False, True], ids=["moved", "exchanged"])
@pytest.mark.parametrize("is_reversed", [False, True], ids=["to the larger id", "to the smaller id"])
def test_tags_that_were_moved_in_mlflow_are_not_called_other_values(plat, spec, home, toy, both, is_reversed):
    path = spec(GUESSING)
    plat("sweep", path)
    whole = plat("report", path)[1]
    with closing(sqlite3.connect(home / "mlflow.db")) as store, store:
        order = "DESC" if is_reversed else "ASC"
        ids = store.execute(f"SELECT run_uuid, value FROM tags WHERE key = 'plat.id' ORDER BY value {order}")
        (one, id_of_one), (other, id_of_other) = ids
        change = "UPDATE tags SET value = ? WHERE key = 'plat.id' AND run_uuid = ?"
        store.execute(change, (id_of_one, other))
        store.execute(change if both else "DELETE FROM tags WHERE value <> ? AND key = 'plat.id' AND run_uuid = ?",
                      (id_of_other, one))  # fmt: skip
    _, _, err = plat("sync")
    assert "redone" not in err and (not both or "changed in the store" in err)
    assert plat("doctor", "--fix")[0] == 0 and plat("report", path)[::2] == (0, "")
    assert plat("report", path)[1] == whole


def empty(path):
    path.write_bytes(b"")


def cut(path):
    path.write_bytes(path.read_bytes()[:-20])


def pipe(path):
    path.unlink()
    os.mkfifo(path)


ATTEMPT = "attempts/001"
DAMAGES = [
    *((name, how) for name in ("config.yaml", "meta.json") for how in (Path.unlink, empty, cut, pipe)),
    *(("result.json", how) for how in (empty, cut, pipe)),
    *((name, how) for name in ("code.txt", f"{ATTEMPT}/events.jsonl") for how in (Path.unlink, empty, cut, pipe)),
    *((f"{ATTEMPT}/{name}", how) for name in ("outcome.json", "attempt.json") for how in (empty, cut, pipe)),
    (f"{ATTEMPT}/outcome.json", Path.unlink),
]


@pytest.mark.parametrize(("name", "how"), DAMAGES, ids=[f"{how.__name__} {name}" for name, how in DAMAGES])
def test_every_verb_names_the_same_cure_and_it_works(plat, spec, home, toy, name, how):
    path = spec(GUESSING)
    plat("sweep", path)
    whole = plat("report", path)[1]
    run = sorted(home.glob("runs/*/*"))[0]
    how(run / name)
    for file in home.glob("mlflow.db*"):
        file.unlink()
    plat("sync")
    facts = json.loads(plat("why", run.name, "--json")[1])
    damaged, cure = facts["damage"], facts["fix"]
    for verb in (("why", run.name), ("doctor", "--deep")):
        said = "".join(plat(*verb)[1].split())
        assert damaged and "".join(damaged.split()) in said and "".join(cure.split()) in said, (verb, damaged)
    if cure.startswith("remove the run's result.json"):
        (run / "result.json").unlink()
    elif not cure.startswith("`plat sweep`"):
        assert "remove the run's directory and sweep again" in cure
        shutil.rmtree(run)
    code, out, err = plat("sweep", path, "-v")
    assert code == 0 and (err or "started" in out), "nothing is written again in silence"
    assert plat("doctor", "--deep")[0] == 0 and plat("report", path)[:2] == (0, whole)
    assert json.loads(plat("why", run.name, "--json")[1])["damage"] == ""


def test_exchanged_results_are_named_by_every_verb_and_mended_by_a_sweep(plat, spec, home, toy):
    path = spec(GUESSING)
    plat("sweep", path)
    whole = plat("report", path)[1]
    first, second, *_ = sorted(home.glob("runs/*/*"))
    for name in ("attempts", "result.json"):
        assert exchange(first / name, second / name)
    for file in home.glob("mlflow.db*"):
        file.unlink()
    for verb in ("sync", "report"):
        code, _, err = plat(verb, path)
        assert code == 3 and f"run {first.name} is damaged" in err and f"is of run {first.name}" in err, (verb, err)
    for run in (first, second):
        assert json.loads(plat("why", run.name, "--json")[1])["state"]["state"] == "interrupted"
    assert plat("sweep", path)[0] == 0 and plat("report", path)[:2] == (0, whole)
