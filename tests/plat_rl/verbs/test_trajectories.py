"""`plat trajectory RUN`: a validation instance as people read it, also from a bundle of others."""

from __future__ import annotations

import shutil

import pytest

from plat.errors import RunError
from plat.store.home import Home
from plat.store.run_directory.history import Table
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.spool import read_events
from plat_rl.verbs import trajectory

TEXT = """\
title: One run that keeps trajectories
base: {scale: smoke, task: sokoban, eval.trajectories: 2}
matrix: {seed: [5]}
"""


@pytest.fixture
def run_id(plat, home, spec, empty_store):
    home.mkdir()
    shutil.copy(empty_store, home / "mlflow.db")
    code, _, err = plat("sweep", spec(TEXT))
    assert code == 0, err
    (path,) = home.glob("runs/*/*")
    return path.name


def test_a_trajectory_is_shown_with_board_reasoning_actions_and_reward(plat, home, run_id, spec, tmp_path):
    code, out, _ = plat("trajectory", run_id, "--instance", "1", "--step", "0")
    assert code == 0 and out.startswith("step 0 · validation instance 1 · seed ")
    events = read_events(Home(home).run(run_id).attempts()[0].events)[0]
    (data,) = [event.data for event in events if (event.table, event.step) == ("val_trajectories", 0)]
    seen, said, reward = data[1]["turns"][0]
    words = seen.split(" ")
    board = [" ".join(words[start : start + 4]) for start in (1, 5, 9, 13)]
    lines = [line.strip() for line in out.splitlines()]
    at = lines.index("turn 1 · reward " + format(reward, "g"))
    assert lines[at + 1] == "sokoban" and lines[at + 2 : at + 6] == board
    assert lines[at + 7].startswith("thinks   " + said.partition("</think>")[0].strip()[:20])
    assert lines[at + 8].startswith("answers  ")
    newest = plat("trajectory", run_id)[1]
    assert newest.startswith("step 2 · validation instance 0")
    # A bundle carries the trajectories, through another home and its store.
    assert plat("export", spec(TEXT), "--out", tmp_path / "bundle")[0] == 0
    other = tmp_path / "other"
    assert plat("import", tmp_path / "bundle", "--home", other)[0] == 0
    assert plat("trajectory", run_id, "--home", other)[1] == newest


def test_what_cannot_be_shown(plat, run_id, home):
    for arguments, words in (
        (("--instance", "2"), "from 0 to 1"),
        (("--step", "7"), "one of: 0, 1, 2"),
    ):
        code, _, err = plat("trajectory", run_id, *arguments)
        assert code == 2 and words in err, arguments
    assert plat("run", "scale=smoke")[0] == 0
    (other,) = [path.name for path in home.glob("runs/*/*") if path.name != run_id]
    code, _, err = plat("trajectory", other)
    assert code == 2 and "kept no trajectories" in err and "eval.trajectories=8" in err


@pytest.mark.parametrize("data", [7, [3], [{"turns": 1}], [{"turns": [["a", "b", "much"]], "success": 1}], {"a": 1}])
def test_a_table_of_others_that_is_no_trajectory_is_named(home, data, monkeypatch):
    tables = [Table("val_trajectories", 0, data, 0.0)]
    monkeypatch.setattr("plat.store.run_directory.history.run_history", lambda paths: ([], tables))
    with pytest.raises(RunError, match="cannot be read"):
        trajectory.read_trajectory(RunPaths(home / "runs" / "ab" / "abcdef"), 0, None)
