"""The Python API: every example of its docstrings and of docs/notebook.md runs, and what it promises holds."""

from __future__ import annotations

import doctest
import logging
import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import plat
from plat import api
from plat.errors import PlatError, SpecError

ROOT = Path(__file__).parents[2]
SMALL = """
title: A small experiment
base: {trainer: toy_hill_climber, climb.games: 20, climb.iterations: 4}
matrix:
  policy: [wild, climber]
  seed: [0]
report:
  - {builder: measures_table, name: measures, conditions: policy, measures: {best: peak}}
claims:
  - {id: climbs, check: increasing, says: climbing helps, metric: val/success, rows: policy, columns: scale}
"""
SEARCH = """
title: A search
base: {trainer: toy_hill_climber, climb.games: 20, climb.iterations: 4}
space:
  guesses: [3, 4]
objectives: [{maximize: success}]
trials: 2
seeds: [0]
confirm: [1]
"""
QUICKSTART = "experiments/quickstart.yaml"
FUNCTIONS = [name for name in plat.__all__ if not name.startswith("_") and name != "log"]  # `log` is for scripts


@pytest.fixture(scope="module")
def folder(toy_paper, empty_store, tmp_path_factory):
    """A folder with the files that the examples name, and the package of toys installed."""
    import shutil

    folder = tmp_path_factory.mktemp("api")
    (folder / "small.yaml").write_text(SMALL)
    (folder / "search.yaml").write_text(SEARCH)
    (folder / "experiments").symlink_to(ROOT / "experiments")
    for home in ("my-home", "plat-home"):
        (folder / home).mkdir()
        shutil.copy(empty_store, folder / home / "mlflow.db")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.syspath_prepend(str(toy_paper))
        patch.setenv("PYTHONPATH", str(toy_paper))
        patch.delenv("PLAT_HOME", raising=False)
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        yield folder


def test_every_example_of_the_docstrings_runs(folder):
    """In the order in which a user meets them: a plan, a sweep, then what reads it."""
    finder = doctest.DocTestFinder()
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for name in ("plan", "sweep", "status", "runs", "report", "claims", "tune", "load"):
        (example,) = finder.find(getattr(api, name), name, globs={"plat": plat})
        assert example.examples, f"plat.{name} has no example"
        text: list[str] = []
        assert runner.run(example, out=text.append).failed == 0, "".join(text)


def test_the_notebook_page_runs(folder):
    page = (ROOT / "docs" / "notebook.md").read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", page, flags=re.M | re.S)
    names: dict[str, object] = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 2


def test_it_prints_nothing_and_leaves_the_signals_as_they_were(folder, capfd):
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert plat.sweep("small.yaml", home="my-home").counts() == {"done": 2}
    plat.report("small.yaml", home="my-home")
    plat.claims("small.yaml", home="my-home")
    out, err = capfd.readouterr()
    assert (out, err) == ("", "")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_second_sweep_does_nothing(folder):
    plat.sweep("small.yaml", home="my-home")
    ended = plat.sweep("small.yaml", home="my-home")
    assert not any(end.fresh for end in ended.ends.values())


def test_warnings_go_to_the_logger(folder, caplog):
    with caplog.at_level(logging.WARNING, "plat"):
        plat.plan("experiments/quickstart.yaml", ["filter.low=0.2"])
    assert any("filter.low has no effect" in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize(
    ("file", "overrides"),
    [
        ("none.yaml", []),
        ("experiments/quickstart.yaml", ["train.lrr=1"]),
        ("experiments/quickstart.yaml", ["train.lr=x"]),
    ],
)
@pytest.mark.parametrize("name", ["plan", "sweep", "report", "claims", "load"])
def test_errors_are_those_of_the_command_line(folder, name, file, overrides):
    with pytest.raises(PlatError) as error:
        getattr(plat, name)(file, overrides)
    verb = {"load": "report"}.get(name, name)
    done = subprocess.run(
        [sys.executable, "-m", "plat", verb, file, *overrides], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 2 and done.stderr.strip() == error.value.render().strip()


def test_no_file_is_an_error_too(folder):
    with pytest.raises(SpecError, match="no experiment file named"):
        plat.plan([])
    with pytest.raises(SpecError, match="takes one experiment file"):
        plat.report("small.yaml", ["experiments/quickstart.yaml"])


def test_errors_of_the_system_are_in_the_words_of_the_command_line(folder):
    with pytest.raises(SpecError, match="a file name that is too long"):
        plat.plan("x" * 300 + ".yaml")


@pytest.mark.parametrize(
    ("name", "arguments", "options", "what"),
    [
        ("sweep", ["small.yaml"], {"jobs": -3}, "jobs is -3"),
        ("plan", ["small.yaml"], {"jobs": 1.5}, "jobs is 1.5"),
        ("plan", [None], {}, "files is None"),
        ("plan", ["small.yaml", {"train.lr": 1}], {}, "overrides is {'train.lr': 1}"),
        ("load", [["small.yaml"]], {}, r"file is \['small.yaml'\]"),
        ("sweep", ["small.yaml"], {"on": ["local"]}, r"on is \['local'\]"),
        ("sweep", ["small.yaml"], {"wait": "x"}, "wait is 'x'"),
        ("claims", ["small.yaml"], {"store": 5}, "store is 5"),
    ],
)
def test_an_argument_of_a_wrong_type_is_refused(folder, name, arguments, options, what):
    with pytest.raises(SpecError, match=what) as error:
        getattr(plat, name)(*arguments, **options)
    assert error.value.where and error.value.fix


def test_one_text_is_one_override_one_condition_and_one_column(folder):
    assert plat.plan("small.yaml", "matrix.policy=[wild]").counts()["missing"] == 1
    plat.sweep("small.yaml", home="my-home")
    found = plat.runs("small.yaml", where="policy=wild", columns="seed", home="my-home")
    assert list(found.columns) == ["id", "seed"] and len(found) == 1


def test_ctrl_c_ends_the_sweep_and_the_caller(folder, caplog):
    threading.Timer(4.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with caplog.at_level(logging.INFO, "plat"), pytest.raises(KeyboardInterrupt):
        plat.sweep("small.yaml", ["climb.iterations=10000000", "matrix.policy=[climber]"], home="other-home")
    assert any("started" in record.getMessage() for record in caplog.records)  # progress is logged
    (entry,) = plat.status("small.yaml", ["climb.iterations=10000000", "matrix.policy=[climber]"], home="other-home")
    assert entry.state.state in ("interrupted", "missing")


def test_a_plan_imports_neither_torch_nor_mlflow():
    code = (
        "import sys, plat\nassert 'plat.api' not in sys.modules\n"
        "print(plat.plan('experiments/quickstart.yaml'))\n"
        "print({'torch', 'mlflow', 'pandas', 'ray', 'optuna'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "set()", done.stderr


def test_every_function_is_listed_and_documented():
    assert FUNCTIONS == sorted(name for name in vars(api) if callable(vars(api)[name]) and name in plat.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        plat.nothing  # noqa: B018
