"""What is recorded of the code: plat's own checkout or nothing, plug-ins apart, and never a secret."""

from __future__ import annotations

import subprocess

import pytest

from plat.store.provenance import code_state
from plat.store.provenance.code_state import CodeState, PlugIn, Repository, collect, repository_of

PLAT = '[project]\nname = "plat"\n'


def git(folder, *arguments):
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", "-C", folder, *identity, *arguments], check=True, capture_output=True)


def make_repository(folder, pyproject=PLAT):
    """A repository with a module `package/a.py` and uncommitted changes in and beside the package."""
    package = folder / "package"
    package.mkdir(parents=True)
    (folder / "pyproject.toml").write_text(pyproject)
    (package / "a.py").write_text("x = 1\n")
    (folder / "other.py").write_text("y = 1\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    (package / "a.py").write_text("x = 2\ntoken = 'abcdefgh12345678'\n")
    (folder / "other.py").write_text("y = 2\n")
    (folder / "new.py").write_text("")
    return package / "a.py"


def test_a_checkout_of_plat(tmp_path):
    state = collect(make_repository(tmp_path / "plat"))
    found = state.repository
    assert len(found.commit) == 40 and found.dirty and found.untracked == ("new.py",)
    assert found.changed == ("other.py", "package/a.py")
    assert "python" in state.versions and "numpy" in state.versions
    everything = f"{state.text()}{state.facts()}"
    assert "x = 2" not in everything and "abcdefgh12345678" not in everything and len(found.diff_sha256) == 64


def test_another_change_has_another_hash(tmp_path):
    one, other = (make_repository(tmp_path / name) for name in ("one", "other"))
    other.write_text("x = 3\n")
    assert repository_of(one, whole=True).diff_sha256 != repository_of(other, whole=True).diff_sha256


def test_no_checkout(tmp_path):
    (tmp_path / "a.py").write_text("")
    assert collect(tmp_path / "a.py").repository is None
    assert collect(tmp_path / "nowhere" / "a.py").repository is None


@pytest.mark.parametrize("pyproject", ['[project]\nname = "mine"\n', "", "[broken"])
def test_plat_inside_somebodys_repository_is_told_by_its_version_alone(tmp_path, pyproject):
    """Copied into it, so that git tracks it there: commit and changes are somebody else's."""
    state = collect(make_repository(tmp_path / "mine", pyproject))
    assert state.repository is None and state.facts()["commit"] is None and not state.facts()["dirty"]
    assert "plat" in state.versions


def test_an_installation_inside_a_repository_is_not_of_it(tmp_path):
    """Even in plat's own: git does not track what was installed there."""
    make_repository(tmp_path / "plat")
    installed = tmp_path / "plat" / ".venv" / "site-packages" / "a.py"
    installed.parent.mkdir(parents=True)
    installed.write_text("")
    assert collect(installed).repository is None


def test_git_variables_show_no_other_repository(tmp_path, monkeypatch):
    source = make_repository(tmp_path / "plat")
    commit = repository_of(source, whole=True).commit
    other = make_repository(tmp_path / "other")
    git(tmp_path / "other", "commit", "-q", "-am", "second")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(tmp_path / "other"))
    assert repository_of(source, whole=True).commit == commit != repository_of(other, whole=True).commit


def test_a_repository_whose_changes_git_cannot_list_counts_as_changed(tmp_path, monkeypatch):
    source = make_repository(tmp_path / "plat")
    answer = code_state._git
    monkeypatch.setattr(code_state, "_git", lambda folder, *a: None if a[0] == "status" else answer(folder, *a))
    found = repository_of(source, whole=True)
    assert found.dirty and found.changed == found.untracked == ()


def test_of_a_plug_in_only_its_own_folder_is_looked_at(tmp_path):
    repository = repository_of(make_repository(tmp_path / "mine"), whole=False)
    assert repository.changed == ("package/a.py",) and repository.untracked == ()


def test_plug_ins_are_recorded_apart(toy_paper, monkeypatch):
    monkeypatch.syspath_prepend(str(toy_paper))
    collect.cache_clear()
    try:
        plug_ins = {plug_in.package: plug_in for plug_in in collect().plug_ins}
    finally:
        collect.cache_clear()
    assert "plat" not in plug_ins
    (name,) = [name for name in plug_ins if "toy" in name]
    assert plug_ins[name].version and plug_ins[name].repository is None


def test_what_is_written_of_a_plug_in(tmp_path):
    repository = Repository(tmp_path, "c0ffee", True, (), ("a.py",), "d1ff")
    state = CodeState(versions={"plat": "1"}, plug_ins=(PlugIn("mine", "2.0", repository), PlugIn("other", "3")))
    first, second = state.facts()["plug_ins"]
    assert (first["commit"], first["dirty"], second) == ("c0ffee", True, {"package": "other", "version": "3"})
    assert "plug-in: package=mine version=2.0 commit=c0ffee dirty=True diff_sha256=d1ff" in state.text()
    assert "changed: mine: a.py\n" in state.text()
    assert state.text().startswith("commit: none (not a checkout of plat)\n")
