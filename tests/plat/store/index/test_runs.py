"""With an index, every state is what the directory says, whatever became of that; finished runs are not read."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from index_states import told, truth

from plat.store.disk.durable import read_json, to_checked_json, write
from plat.store.home import Home
from plat.store.index.indexed_runs import descriptions, states
from plat.store.run_directory import lease
from plat.store.run_directory.run_files import load_meta, read_result

pytestmark = pytest.mark.usefixtures("indexed")
NUMBERS = range(6)


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
        meta = read_json(paths.meta) | {"iterations": 8}
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
