"""Run directories lie in folders named by the beginning of their id."""

from __future__ import annotations

import json

import pytest
from toy_runs import toy_run

from plat.errors import HomeError
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory.creation import create

CODE = CodeState()
RUNS = [toy_run(iterations=number) for number in range(1, 5)]


def test_a_new_home_has_a_folder_for_each_beginning_of_an_id(tmp_path):
    home = Home(tmp_path).create()
    for run in RUNS:
        paths = create(home, run, "a", code=CODE)
        assert paths.root == tmp_path / "runs" / run.id[:2] / run.id and paths.id == run.id
    assert home.run_ids() == Home(tmp_path).run_ids() == sorted(run.id for run in RUNS)
    assert [paths.id for paths in home.all_runs()] == home.run_ids()
    assert json.loads((tmp_path / "home.json").read_text()) == {"format": 2}


def test_git_ignores_a_new_home_and_a_file_of_the_user_is_kept(tmp_path):
    Home(tmp_path / "new").create()
    assert (tmp_path / "new" / ".gitignore").read_text() == "*\n"
    (tmp_path / ".gitignore").write_text("mine\n")
    Home(tmp_path).create()
    assert (tmp_path / ".gitignore").read_text() == "mine\n"


def test_hidden_names_are_passed_over_and_beginnings_are_looked_up(tmp_path):
    home = Home(tmp_path).create()
    for name in ("ab/ab12", "ab/ab34", "ac/ac12", "ab/.tmp-ab56", ".nfs/x", "ab/cd00"):
        (home.runs / name).mkdir(parents=True)
    assert home.run_ids() == ["ab12", "ab34", "ac12"]
    assert home.run_ids("ab") == ["ab12", "ab34"]
    assert home.run_ids("ab3") == ["ab34"]
    assert home.run_ids("a") == home.run_ids()
    assert home.run_ids("zz") == []
    assert Home(tmp_path / "nothing").run_ids() == []


@pytest.mark.parametrize(("version", "says"), [(1, "plat 0.2 or earlier"), (3, "newer plat")])
def test_a_home_of_another_version_is_refused(tmp_path, version, says):
    (tmp_path / "home.json").write_text(json.dumps({"format": version}))
    with pytest.raises(HomeError, match=says):
        Home(tmp_path).create()
