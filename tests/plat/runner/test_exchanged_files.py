"""Files of one run in another's folder: noticed, or harmless; and the next sweep fixes that or says how.

Every case puts something of run B into run A's folder, by an exchange, a copy or a move, then imports both into an
empty store. Whatever happens, no value of one run may be stored as the other's.
"""

from __future__ import annotations

import os
import shutil

import pytest
from toy_runs import toy_run

from plat.errors import PlatError
from plat.runner.execution import execute
from plat.store.disk.durable import exchange
from plat.store.home import Home
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.provenance.code_state import CodeState, Repository
from plat.store.run_directory.creation import create
from plat.store.run_directory.history import run_history
from plat.store.run_directory.run_files import set_damaged_config_aside
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.state import run_state

RUNS = {"A": toy_run(seed=0), "B": toy_run(seed=1)}
FIRST = "attempts/001"
PARTS = [
    ("result.json",), ("attempts",), ("attempts", "result.json"), ("meta.json",), ("config.yaml",), ("code.txt",),
    (f"{FIRST}/events.jsonl",), (f"{FIRST}/outcome.json",), (f"{FIRST}/attempt.json",), (f"{FIRST}/checkpoints",),
    (f"{FIRST}/events.jsonl", f"{FIRST}/outcome.json"), (".",),
]  # fmt: skip


def make_run(home, name):
    """The directory of a run, made with code that differs from the other run's."""
    return create(home, RUNS[name], "a", code=CodeState(Repository(home.root, name.lower() * 40)))


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """homes[state]: a home with both runs in this state, and no store."""
    made = {}
    for state in ("finished", "resumed", "killed"):
        home = Home(tmp_path_factory.mktemp(state.replace(" ", "-")) / "home").create()
        for name in RUNS:
            paths = make_run(home, name)
            if state != "finished":
                with pytest.MonkeyPatch.context() as patch:
                    patch.setattr(FileRunIO, "should_stop", lambda self: self.step == 4)
                    assert execute(home, paths.id) == "interrupted"
            if state == "killed":
                paths.attempt(1).outcome.unlink()
            else:
                assert execute(home, paths.id) == "finished"
        made[state] = home
    return made


@pytest.fixture(scope="module")
def truth(homes):
    """Name -> the values that its run gives, undisturbed."""
    return {name: values_of(homes["finished"].run(run.id)) for name, run in RUNS.items()}


def values_of(paths):
    metrics = [row for row in run_history(paths)[0] if not row.key.startswith("time/")]
    return {(row.key, row.step): repr(row.value) for row in metrics}


def put(how, source, target):
    """B's file or folder in A's place: A's in B's, too; beside its original; or moved."""
    if how == "exchange":
        if target.exists() and source.exists():
            assert exchange(source, target)
    elif how == "copy" and source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    elif how == "copy":
        shutil.copy2(source, target)
    else:
        shutil.rmtree(target) if target.is_dir() else target.unlink()
        os.rename(source, target)


def stored(home):
    """Name -> {(key, step): value} that the store has of it, but for times."""
    frames = Store(home.store_uri(), home).load("a")
    names = {run.id: name for name, run in RUNS.items()}
    values = {name: {} for name in RUNS}
    for row in frames.metrics.itertuples():
        if not row.key.startswith("time/"):
            values[names[row.run_id]][row.key, row.step] = repr(float(row.value))
    return values


@pytest.mark.parametrize("how", ["exchange", "copy", "move"])
@pytest.mark.parametrize("parts", PARTS, ids="+".join)
@pytest.mark.parametrize("state", ["finished", "resumed", "killed"])
def test_no_value_of_one_run_is_taken_for_the_others(homes, truth, empty_store, tmp_path, state, parts, how):
    if state == "killed" and (parts == ("result.json",) or f"{FIRST}/outcome.json" in parts):
        parts = tuple(part for part in parts if part.startswith(FIRST) and "outcome" not in part) or ("attempts",)
    shutil.copytree(homes[state].root, tmp_path / "home")
    home = Home(tmp_path / "home")
    shutil.copy(empty_store, home.database)
    paths = {name: home.run(run.id) for name, run in RUNS.items()}
    for part in parts:
        if (paths["B"].root / part).exists():
            put(how, paths["B"].root / part, paths["A"].root / part)

    was_done = {name for name in RUNS if run_state(paths[name]).state == "done"}
    report = import_runs(home, home.store_uri())
    noticed = {name for name, run in RUNS.items() if run.id in {*report.damaged, *report.unreadable}}
    assert report.exit_code == (3 if noticed else 0)
    for name, values in stored(home).items():
        assert values.items() <= truth[name].items(), f"values of another run in {name}"
        if name in was_done and name not in noticed:
            assert values == truth[name], f"{name} is silently incomplete"
    if parts in ((".",), ("result.json",), ("attempts", "result.json"), ("meta.json",)) and state != "killed":
        assert "A" in noticed and ("A" not in was_done or parts == ("meta.json",))

    said = []
    for name in RUNS:  # as a sweep does
        try:
            set_damaged_config_aside(paths[name])
            make_run(home, name)
            execute(home, paths[name].id)
        except PlatError as error:
            said.append(name)
            assert error.fix and error.where
    report = import_runs(home, home.store_uri())
    for name, run in RUNS.items():
        if run.id in report.damaged:
            assert report.damaged[run.id].fix in " ".join(report.warnings())
        elif name not in said:
            assert values_of(paths[name]) == truth[name]
            assert run_state(paths[name]).state == "done" and run.id not in report.unreadable
