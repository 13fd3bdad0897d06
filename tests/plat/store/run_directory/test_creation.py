"""Run directories: made once and whole, the same for everybody, and cheap to read."""

import dataclasses
import json
import multiprocessing
import os
import time
from pathlib import Path

import pytest
import yaml
from toy_runs import toy_run

from plat.errors import HomeError, SpecError
from plat.store.disk.durable import to_checked_json
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState, Repository
from plat.store.run_directory import lease
from plat.store.run_directory.attempts import new_attempt
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_files import config_hash, read_config, read_meta, read_result
from plat.store.run_directory.spool import SpoolWriter
from plat.store.run_directory.state import run_state

CODE = CodeState(Repository(Path("plat"), "c0ffee", True, ("notes.txt",), ("a.py",), "d1ff"), {"torch": "2.13.0"})


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


def test_everything_is_in_it(home):
    run = toy_run(iterations=9)
    paths = create(home, run, "table4", paper="ragen2", code=CODE)
    assert read_config(paths) == run.config == yaml.safe_load(paths.config.read_text())
    meta = json.loads(paths.meta.read_text())
    expected = {"id": run.id, "name": run.name, "trainer": run.trainer, "trainer_version": "1.0", "paper": "ragen2"}
    expected |= {
        "axes": {"seed": 0},
        "experiments": ["table4"],
        "fingerprint": {"toy": 1},
        "scale": "toy",
        "iterations": 9,
    }
    assert {key: meta[key] for key in expected} == expected
    assert meta["code"] == CODE.facts() and CODE.facts()["diff_sha256"] == "d1ff"
    assert paths.code.read_text() == "commit: c0ffee\ndirty: true\nchanged: a.py\nuntracked: notes.txt\ntorch==2.13.0\n"
    assert not paths.diff.exists()
    assert home.run_ids() == [run.id]
    assert run_state(paths).state == "missing" and read_result(paths) is None


def test_again_changes_nothing_but_the_list_of_files_that_ask(home):
    run = toy_run()
    paths = create(home, run, "table4", code=CODE)
    before = {path.name: path.read_bytes() for path in paths.root.iterdir()}
    create(home, run, "table4", code=CODE)
    assert {path.name: path.read_bytes() for path in paths.root.iterdir()} == before
    create(home, run, "figure5", paper="ragen2", code=CODE)
    create(home, run, "", code=CODE)
    meta = json.loads(paths.meta.read_text())
    assert meta["experiments"] == ["table4", "figure5"] and meta["paper"] == "ragen2"


def test_two_configs_never_share_an_id_silently(home):
    run = toy_run()
    create(home, run, "a", code=CODE)
    other = dataclasses.replace(toy_run(seed=1), id=run.id)
    with pytest.raises(SpecError, match=r"share the id .*seed is 0 there and 1 here"):
        create(home, other, "a", code=CODE)
    operational = dataclasses.replace(run, config=run.config | {"micro": 8})
    create(home, operational, "a", code=CODE)
    before_the_option_existed = {key: value for key, value in run.config.items() if key != "sleep"}
    config = home.run(run.id).config
    config.write_text(yaml.safe_dump(before_the_option_existed))
    meta = read_meta(home.run(run.id)) | {"config_sha256": config_hash(before_the_option_existed)}
    home.run(run.id).meta.write_bytes(to_checked_json(meta))
    create(home, dataclasses.replace(run, config=run.config | {"micro": 2}), "a", code=CODE)


def make(root, name, barrier):
    barrier.wait()
    create(Home(root), toy_run(), name, code=CODE)


def test_a_run_that_is_older_than_an_option_of_a_plug_in_is_the_same_run(home):
    """The option is left out of the id at its `legacy` value, which the older config does not have."""
    run = toy_run()
    newer = dataclasses.replace(
        run, config={**run.config, "board": {"blank": False}}, identity={**run.identity, "left_out": ["board.blank"]}
    )
    create(home, run, "old")
    paths = create(home, newer, "new")
    assert read_config(paths) == newer.config and read_meta(paths)["experiments"] == ["old", "new"]
    with pytest.raises(SpecError, match=r"board\.blank is False there and True here"):
        create(home, dataclasses.replace(newer, config={**run.config, "board": {"blank": True}}), "new")


def test_many_processes_make_one_directory_and_each_is_noted(home):
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(6)
    makers = [context.Process(target=make, args=(home.root, f"file{i}", barrier)) for i in range(6)]
    for maker in makers:
        maker.start()
    for maker in makers:
        maker.join(20)
    assert [maker.exitcode for maker in makers] == [0] * 6
    paths = home.run(toy_run().id)
    assert sorted(json.loads(paths.meta.read_text())["experiments"]) == [f"file{i}" for i in range(6)]
    assert home.run_ids() == [paths.id]
    assert not [name for name in os.listdir(home.root) if name.startswith(".tmp-")]


def test_an_unwritable_home_is_said_clearly(tmp_path):
    blocked = tmp_path / "home"
    blocked.mkdir()
    (blocked / "runs").write_text("a file in the way")
    with pytest.raises(HomeError) as error:
        create(Home(blocked), toy_run(), "a", code=CODE)
    assert str(blocked) in error.value.render() and error.value.fix


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: [", None])
def test_a_damaged_config_is_said_clearly(home, text):
    paths = create(home, toy_run(), "a", code=CODE)
    paths.config.unlink() if text is None else paths.config.write_text(text)
    with pytest.raises(HomeError) as error:
        read_config(paths)
    assert error.value.where == str(paths.config) and error.value.fix


def test_every_state(home):
    paths = home.run(toy_run().id)
    assert run_state(paths).state == "missing"
    create(home, toy_run(), "a", code=CODE)
    held = lease.take(paths)
    attempt = new_attempt(paths, 1)
    spool = SpoolWriter(attempt.events, attempt.run.id)
    spool.append(0, {"val/success": 0.25})
    spool.append(3, {"x": 1.0})
    spool.close()
    actual = run_state(paths)
    assert (actual.state, actual.step, actual.success, actual.iterations, actual.attempt) == ("running", 3, 0.25, 6, 1)
    assert actual.age is not None and actual.age < 60
    text = json.loads(paths.lease.read_text())
    held.release()
    assert run_state(paths).state == "interrupted"  # it vanished without a word
    paths.lease.write_text(json.dumps(text | {"host": "elsewhere"}))
    assert run_state(paths).state == "unknown"
    paths.lease.unlink()
    for outcome, state in [("failed:nan", "failed"), ("interrupted", "interrupted"), ("cancelled", "interrupted")]:
        ended = {"run": paths.id, "outcome": outcome, "reason": "why", "step": 3, "time": time.time()}
        attempt.outcome.write_bytes(to_checked_json(ended))
        actual = run_state(paths)
        assert (actual.state, actual.outcome, actual.reason) == (state, outcome, "why")
    result = {"outcome": "stopped:low_success", "step": 6, "attempt": 1, "success": 0.5, "time": 1.0, "iterations": 6}
    paths.result.write_bytes(to_checked_json({"id": paths.id, **result}))
    actual = run_state(paths)
    assert (actual.state, actual.outcome, actual.step, actual.success) == ("done", "stopped:low_success", 6, 0.5)


@pytest.mark.parametrize("name", ["config.yaml", "meta.json"])
@pytest.mark.parametrize("left", [None, ""])
def test_what_a_power_cut_took_is_written_again(home, name, left):
    paths = create(home, toy_run(), "a", code=CODE)
    before = paths.config.read_bytes()
    (paths.root / name).unlink() if left is None else (paths.root / name).write_text(left)
    create(home, toy_run(), "b", code=CODE)
    assert paths.config.read_bytes() == before and json.loads(paths.meta.read_text())["id"] == paths.id


def test_a_torn_result_is_no_result(home):
    paths = create(home, toy_run(), "a", code=CODE)
    paths.result.write_text('{"outcome": "fini')
    assert read_result(paths) is None and run_state(paths).state == "missing"
