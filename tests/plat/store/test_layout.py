"""Run directories lie in folders named by the beginning of their id; homes of earlier versions keep their layout."""

from __future__ import annotations

import json
import shutil

import pytest
from toy_runs import toy_run

from plat.errors import HomeError
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory.creation import create
from plat.store.run_directory.state import run_state

CODE = CodeState(None, False)
RUNS = [toy_run(iterations=number) for number in range(1, 5)]


def flat_home(folder, *, marker=True):
    """A home as plat 0.2 made it, with one run."""
    home = Home(folder)
    home.runs.mkdir(parents=True)
    home.cache.mkdir()
    if marker:
        (folder / "home.json").write_text('{"format": 1}\n')
    made = create(Home(folder / "elsewhere").create(), RUNS[0], "old", code=CODE)
    shutil.move(made.root, home.runs / made.id)
    shutil.rmtree(folder / "elsewhere")
    return Home(folder)


def test_a_new_home_has_a_folder_for_each_beginning_of_an_id(tmp_path):
    home = Home(tmp_path).create()
    for run in RUNS:
        paths = create(home, run, "a", code=CODE)
        assert paths.root == tmp_path / "runs" / run.id[:2] / run.id and paths.id == run.id
    assert home.run_ids() == Home(tmp_path).run_ids() == sorted(run.id for run in RUNS)
    assert [paths.id for paths in home.all_runs()] == home.run_ids()
    assert json.loads((tmp_path / "home.json").read_text()) == {"format": 2}


@pytest.mark.parametrize("marker", [True, False])
def test_a_home_of_an_earlier_version_keeps_its_layout(tmp_path, marker):
    home = flat_home(tmp_path, marker=marker)
    assert run_state(home.run(RUNS[0].id)).state == "missing" and home.run(RUNS[0].id).meta.is_file()
    create(home.create(), RUNS[1], "new", code=CODE)
    assert sorted(path.name for path in home.runs.iterdir()) == sorted(run.id for run in RUNS[:2]) == home.run_ids()
    assert json.loads((tmp_path / "home.json").read_text()) == {"format": 1}, "plat 0.2 can still use it"


def test_directories_copied_by_hand_to_where_the_other_layout_has_them_are_found(tmp_path):
    old, new = flat_home(tmp_path / "old"), Home(tmp_path / "new").create()
    create(new, RUNS[1], "a", code=CODE)
    shutil.copytree(old.runs, new.runs, dirs_exist_ok=True)
    shutil.copytree(new.run(RUNS[1].id).root.parent, old.runs / RUNS[1].id[:2])
    for home in (Home(old.root), Home(new.root)):
        assert home.run_ids() == sorted(run.id for run in RUNS[:2])
        for run in RUNS[:2]:
            assert home.run(run.id).meta.is_file()
            create(home, run, "b", code=CODE)  # notes the file in the directory that is there, and makes no second one
        assert len(list(home.runs.rglob("meta.json"))) == 2


def test_a_misplaced_directory_that_was_removed_is_made_again_in_its_usual_place(tmp_path):
    old, new = flat_home(tmp_path / "old"), Home(tmp_path / "new").create()
    shutil.copytree(old.runs, new.runs, dirs_exist_ok=True)
    home = Home(new.root)
    assert home.run(RUNS[0].id).root.parent == home.runs
    shutil.rmtree(home.runs / RUNS[0].id)
    assert home.run(RUNS[0].id).root.parent == home.runs / RUNS[0].id[:2]


def test_hidden_names_are_passed_over_and_beginnings_are_looked_up(tmp_path):
    home = Home(tmp_path).create()
    for name in ("ab/ab12", "ab/ab34", "ac/ac12", "ab/.tmp-ab56", ".nfs/x", "ab/cd00"):
        (home.runs / name).mkdir(parents=True)
    assert home.run_ids() == ["ab12", "ab34", "ac12"]
    assert home.layout.ids_beginning("ab") == ["ab12", "ab34"]
    assert home.layout.ids_beginning("ab3") == ["ab34"]
    assert home.layout.ids_beginning("a") == home.run_ids()
    assert home.layout.ids_beginning("zz") == []
    assert Home(tmp_path / "nothing").run_ids() == []


def test_a_home_of_a_newer_version_is_refused(tmp_path):
    (tmp_path / "home.json").write_text('{"format": 3}')
    with pytest.raises(HomeError, match="newer plat"):
        Home(tmp_path).create()
