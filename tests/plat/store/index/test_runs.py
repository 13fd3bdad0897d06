"""With an index, every state is what the directory says, whatever became of either; finished runs are not read."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plat.store.durable import to_checked_json, write
from plat.store.home import Home
from plat.store.index.database import index_path
from plat.store.index.runs import descriptions, states
from plat.store.index.stamp import SETTLED, is_settled, stamp, stamps
from plat.store.run_directory import lease
from plat.store.run_directory.files import load_meta, read_result
from plat.store.run_directory.state import run_state

pytestmark = pytest.mark.usefixtures("indexed")
NUMBERS = range(6)


def truth(home, ids):
    """What the directories say; ages aside, which go on."""
    return {run_id: replace(run_state(home.run(run_id)), age=None) for run_id in ids}


def told(home, ids):
    return {run_id: replace(state, age=None) for run_id, state in states(home, ids).items()}


@pytest.fixture
def ids(home, recipe):
    """Three finished runs, one stopped, one failed and one that was interrupted."""
    outcomes = ["finished", "finished", "finished", "stopped:low_success", "failed:oom", None]
    for number, outcome in enumerate(outcomes):
        recipe(number, outcome=outcome).write(home)
    return home.run_ids()


def test_states_are_those_of_the_directories_and_in_the_order_asked_for(home, ids):
    asked = [*reversed(ids), "00ff" * 4]
    for _ in range(2):
        assert told(home, asked) == truth(home, asked)
        assert list(states(home, asked)) == asked
    assert [state.state for state in states(home, ids).values()] == ["done"] * 4 + ["failed", "interrupted"]


def test_finished_runs_are_read_once(home, ids, reads):
    done = set(ids[:4])
    states(home, ids)
    assert {path.parent.name for path in reads if path.name == "result.json"} >= done
    descriptions(home, ids)
    reads.clear()
    states(home)
    descriptions(home, ids)
    assert not {path for path in reads if path.parent.name in done}


def test_a_description_has_what_meta_json_says(home, ids, recipe):
    home.run(ids[5]).meta.unlink()
    for _ in range(2):
        described = descriptions(home, ids)
        assert list(described) == ids
        for number, description in enumerate(described.values()):
            meta = load_meta(home.run(ids[number])) or {"name": ids[number], "config_sha256": ""}
            assert (description.name, description.config_sha256) == (meta["name"], meta["config_sha256"])
            assert description.axes == (recipe(number).axes if number < 5 else {}) and description.needs is None
            assert description.experiments == (("table4",) if number < 5 else ())
    assert list(descriptions(home, ids[3:1:-1])) == ids[3:1:-1]


def test_runs_that_were_never_started_cost_no_reading(home, ids, recipe, reads):
    for number in (10, 11):
        paths = recipe(number, outcome=None).write(home)
        shutil.rmtree(paths.root / "attempts")
        meta = json.loads(paths.meta.read_text()) | {"iterations": 8}
        write(paths.meta, to_checked_json(meta))
    asked = home.run_ids()
    assert told(home, asked) == truth(home, asked)
    states(home, asked)
    reads.clear()
    standing = states(home, asked[-2:])
    assert [(state.state, state.iterations) for state in standing.values()] == [("missing", 8)] * 2 and not reads


# --- what may happen to a home ----------------------------------------------------------------------------------------


def remove(paths):
    shutil.rmtree(paths.root)


def remove_result(paths):
    paths.result.unlink(missing_ok=True)


def damage_in_place(paths):
    """As many bytes, and the times of the file set back."""
    if paths.result.exists():
        before = paths.result.stat()
        with open(paths.result, "r+b") as file:
            file.write(b"\0" * 4)
        os.utime(paths.result, ns=(before.st_atime_ns, before.st_mtime_ns))


def another_result(paths):
    if paths.result.exists():
        result = (read_result(paths) or {}) | {"success": 0.25, "outcome": "stopped:empty_batches"}
        write(paths.result, to_checked_json(result))


def odd_numbers(paths):
    """What SQLite cannot keep exactly."""
    if paths.result.exists():
        result = read_result(paths) or {"outcome": "finished"}
        odd = {"success": float("nan"), "step": 2**70, "reason": "\ud800"}
        write(paths.result, to_checked_json({"id": paths.id, **result, **odd}))


def folder_for_a_result(paths):
    paths.result.unlink(missing_ok=True)
    paths.result.mkdir()


def finish(paths):
    if paths.root.exists() and not paths.result.exists():
        ended = {
            "id": paths.id,
            "outcome": "finished",
            "step": 9,
            "success": 0.5,
            "time": 1.7e9,
            "attempt": 1,
            "attempts": [1],
        }
        write(paths.result, to_checked_json(ended))


def copy_with_times(paths):
    """A directory that was copied away and back, as from a backup."""
    if paths.root.exists():
        backup = paths.root.with_name("backup")
        shutil.copytree(paths.root, backup)
        shutil.rmtree(paths.root)
        backup.rename(paths.root)


CHANGES = [
    remove, remove_result, damage_in_place, another_result, odd_numbers, folder_for_a_result, finish, copy_with_times,
]  # fmt: skip


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changes=st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(NUMBERS), st.booleans()), max_size=6))
def test_whatever_is_done_to_the_directories_no_state_is_wrong(make_home, recipe, changes):
    """Changes one after the other, with a look at the states after some of them."""
    home = make_home(f"home-{os.urandom(4).hex()}", store=False)
    for number, outcome in enumerate(["finished"] * 3 + ["stopped:low_success", "failed:oom", None]):
        recipe(number, steps=2, outcome=outcome).write(home)
    asked = home.run_ids()
    states(home, asked)
    for change, number, is_looked_at in changes:
        paths = home.run(asked[number])
        if paths.result.is_dir() or not paths.root.exists():
            continue
        change(paths)
        if is_looked_at:
            assert repr(told(home, asked)) == repr(truth(home, asked))
    assert repr(told(home, asked)) == repr(truth(home, asked))
    assert list(states(home)) == home.run_ids()


def test_a_run_that_goes_on_is_looked_at_each_time(home, ids):
    states(home, ids)
    held = lease.take(home.run(ids[5]))
    assert states(home, ids)[ids[5]].state == "running"
    held.release()
    assert states(home, ids)[ids[5]].state == "interrupted"
    finish(home.run(ids[5]))
    assert states(home, ids)[ids[5]].state == "done"


@pytest.mark.parametrize("copy", ["cp -r", "cp -a"])
def test_a_copied_home_is_read_again(home, ids, tmp_path, reads, copy):
    states(home, ids)
    subprocess.run([*copy.split(), home.root, tmp_path / "copy"], check=True)
    other = Home(tmp_path / "copy")
    reads.clear()
    assert told(other, ids) == truth(home, ids)
    assert {path for path in reads if str(path).startswith(str(other.root)) and path.name == "result.json"}


# --- what may happen to the index -------------------------------------------------------------------------------------


def remove_index(path):
    path.unlink()


def cut_index(path):
    path.write_bytes(path.read_bytes()[:5000])


def overwrite_index(path):
    path.write_bytes(b"nonsense" * 1000)


def index_of_another_format(path):
    with sqlite3.connect(path) as database:
        database.execute("DROP TABLE results")
        database.execute("CREATE TABLE results (other)")
        database.execute("PRAGMA user_version = 99")


def empty_index(path):
    path.write_bytes(b"")


def folder_for_an_index(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "harm", [remove_index, cut_index, overwrite_index, index_of_another_format, empty_index, folder_for_an_index]
)
def test_the_index_may_be_lost_at_any_time(home, ids, harm, reads):
    states(home, ids)
    path = index_path(home)
    assert path.is_file()
    harm(path)
    for _ in range(3):
        assert told(home, ids) == truth(home, ids)
    if harm is not folder_for_an_index:
        reads.clear()
        states(home, ids[:4])
        assert not reads, "it was made anew"


def test_an_index_that_somebody_else_writes_is_waited_for_only_briefly(home, ids, monkeypatch):
    from plat.store.index import database

    monkeypatch.setattr(database, "WAIT", 0.01)
    states(home, ids)
    index_path(home).unlink()
    with sqlite3.connect(index_path(home)) as other:
        other.execute("BEGIN EXCLUSIVE")
        assert told(home, ids) == truth(home, ids)


def test_a_home_that_may_only_be_read_gets_no_index(home, ids, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)  # root may write everywhere
    assert told(home, ids) == truth(home, ids) and not index_path(home).exists()


def test_a_folder_that_is_no_home_gets_no_index(tmp_path):
    assert states(Home(tmp_path / "nothing"), ["00" * 8])["00" * 8].state == "missing"
    assert states(Home(tmp_path / "nothing")) == {} and not list(tmp_path.iterdir())


WRITER = """
import sys
from plat.store.home import Home
from plat.store.index import database, remembered, runs
runs.FEW, remembered.SAVED_FROM, remembered.is_settled, database.WAIT = 0, 1, lambda mark, now: True, 10
home = Home.find(sys.argv[1])
for turn in range(20):
    database.index_path(home).unlink(missing_ok=turn % 5 == 0) if turn % 5 == 0 else None
    states = runs.states(home, home.run_ids())
    assert [state.state for state in states.values()] == ["done"] * 4 + ["failed", "interrupted"], states
"""


def test_several_processes_share_an_index(home, ids):
    """Some of them remove it meanwhile."""
    command = [sys.executable, "-c", WRITER, home.root]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [worker.communicate()[1] for worker in workers] == [""] * 3
    assert told(home, ids) == truth(home, ids)


def test_runs_that_are_gone_are_forgotten(home, ids, monkeypatch):
    from plat.store.index import runs

    monkeypatch.setattr(runs, "SAVED_FROM", 1)
    states(home)
    shutil.rmtree(home.run(ids[0]).root)
    states(home)
    with sqlite3.connect(index_path(home)) as database:
        assert ids[0] not in {row[0] for row in database.execute("SELECT id FROM results")}


# --- stamps -----------------------------------------------------------------------------------------------------------


def test_a_stamp_changes_with_every_change(tmp_path):
    file = tmp_path / "file"
    assert stamp(file) is None
    file.write_text("a")
    first = stamp(file)
    os.utime(file, ns=(0, 0))
    second = stamp(file)
    shutil.copy2(file, tmp_path / "copy")
    (tmp_path / "copy").rename(file)
    assert len({first, second, stamp(file)}) == 3


def test_only_settled_stamps_are_remembered(tmp_path):
    file = tmp_path / "file"
    file.write_text("a")
    changed = file.stat().st_ctime
    assert not is_settled(stamp(file), changed + 0.5 * SETTLED) and is_settled(stamp(file), changed + 2 * SETTLED)


def test_many_stamps_are_those_of_each_file_on_slow_file_systems_too(tmp_path, monkeypatch):
    from plat.store.index import stamp as module

    for number in range(0, 500, 2):
        (tmp_path / str(number)).write_text("x" * number)
    paths = [str(tmp_path / str(number)) for number in range(500)]
    expected = [stamp(path) for path in paths]
    assert stamps(paths) == expected and stamps([]) == []
    monkeypatch.setattr(module, "SLOW", 0.0)
    assert stamps(paths) == expected


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE results SET success = 0.999, outcome = 'stopped:low_success'",
        "UPDATE results SET outcome = 'finiched'",
        "UPDATE results SET id = id || 'x'",
        "UPDATE results SET checksum = checksum + 1",
        "UPDATE metas SET axes = '{}', name = 'another'",
    ],
)
def test_an_edited_row_is_not_believed(home, ids, change):
    """Its stamp still fits the file."""
    expected = truth(home, ids), descriptions(home, ids)
    states(home, ids)
    with closing(sqlite3.connect(index_path(home))) as index:
        assert index.execute(change).rowcount
        index.commit()
    for _ in range(2):
        assert (told(home, ids), descriptions(home, ids)) == expected


def test_no_flipped_bit_of_a_remembered_result_is_believed(home, ids):
    expected = truth(home, ids)
    states(home, ids)
    whole = index_path(home).read_bytes()
    start = whole.index(b"finished")
    for at in range(start, start + len(b"finished")):
        for bit in range(8):
            index_path(home).write_bytes(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
            assert told(home, ids) == expected
