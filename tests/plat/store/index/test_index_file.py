"""The file of the index lost, damaged, edited or written by others: no state is wrong because of it."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from index_states import told, truth

from plat.store.home import Home
from plat.store.index.database import index_path
from plat.store.index.indexed_runs import descriptions, states

pytestmark = pytest.mark.usefixtures("indexed")


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
from plat.store.index import database, indexed_runs, remembered
indexed_runs.FEW, remembered.SAVED_FROM, remembered.is_settled, database.WAIT = 0, 1, lambda mark, now: True, 10
home = Home.find(sys.argv[1])
for turn in range(20):
    database.index_path(home).unlink(missing_ok=turn % 5 == 0) if turn % 5 == 0 else None
    states = indexed_runs.states(home, home.run_ids())
    assert [state.state for state in states.values()] == ["done"] * 4 + ["failed", "interrupted"], states
"""


def test_several_processes_share_an_index(home, ids):
    """Some of them remove it meanwhile."""
    command = [sys.executable, "-c", WRITER, home.root]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    assert [worker.communicate()[1] for worker in workers] == [""] * 3
    assert told(home, ids) == truth(home, ids)


def test_runs_that_are_gone_are_forgotten(home, ids, monkeypatch):
    from plat.store.index import indexed_runs

    monkeypatch.setattr(indexed_runs, "SAVED_FROM", 1)
    states(home)
    shutil.rmtree(home.run(ids[0]).root)
    states(home)
    with sqlite3.connect(index_path(home)) as database:
        assert ids[0] not in {row[0] for row in database.execute("SELECT id FROM results")}


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
