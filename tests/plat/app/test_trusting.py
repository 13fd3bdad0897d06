"""The list of trusted folders: what may stand in it, and what a damaged or unwritable one says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plat.app.trusting import forget, trust
from plat.errors import SpecError
from plat.trainer.permission import begin_command, is_allowed, list_of_folders, reads, trusted_folders


@pytest.fixture(autouse=True)
def config(tmp_path, monkeypatch):
    monkeypatch.delenv("PLAT_ALLOW_IMPORT", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("HOME", str(tmp_path / "users" / "me"))
    begin_command()
    yield tmp_path / "config"
    begin_command()


def folder(path: Path) -> Path:
    path.mkdir(parents=True)
    return path


def allowed(*files: Path) -> bool:
    begin_command()
    reads(files)
    return is_allowed()


def test_a_folder_is_listed_once_by_its_real_path(tmp_path, monkeypatch):
    place = folder(tmp_path / "real" / "deep")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert trust(tmp_path / "link" / "deep") == trust(place) == place
    monkeypatch.chdir(place)
    assert trust(Path()) == place
    assert list_of_folders().read_text() == f"{place}\n"
    assert forget(tmp_path / "link" / "deep") == place and trusted_folders() == []


def test_a_list_behind_a_link_is_changed_there(config, tmp_path):
    kept = folder(tmp_path / "settings") / "trusted"
    folder(config / "plat")
    list_of_folders().symlink_to(kept)
    place = trust(folder(tmp_path / "mine"))
    assert list_of_folders().is_symlink() and kept.read_text() == f"{place}\n"


def test_a_folder_counts_with_all_below_it_and_nothing_beside_it(tmp_path):
    trust(folder(tmp_path / "mine"))
    folder(tmp_path / "mine" / "deep"), folder(tmp_path / "mine-too")
    assert allowed(tmp_path / "mine" / "a.yaml") and allowed(tmp_path / "mine" / "deep" / "a.yaml")
    assert not allowed(tmp_path / "mine-too" / "a.yaml")
    assert not allowed(tmp_path / "mine" / ".." / "mine-too" / "a.yaml")
    assert not allowed(), "a command without files asks for nothing"


def test_a_file_that_is_read_later_takes_the_permission_away(tmp_path):
    trust(folder(tmp_path / "mine"))
    assert allowed(tmp_path / "mine" / "a.yaml")
    reads([tmp_path / "b.yaml"])
    assert not is_allowed()


@pytest.mark.parametrize("name", ["/", "users", "users/me"])
def test_a_folder_with_the_home_folder_in_it_is_too_large(tmp_path, name):
    folder(tmp_path / "users" / "me" / "project")
    with pytest.raises(SpecError, match="too large to trust"):
        trust(tmp_path / name)
    assert trust(tmp_path / "users" / "me" / "project")


def test_what_is_no_folder_of_the_user_is_refused(tmp_path):
    (tmp_path / "file.yaml").touch()
    folder(tmp_path / "open").chmod(0o777)
    for name, said in {"missing": "no such folder", "file.yaml": "not a folder", "open": "every user"}.items():
        with pytest.raises(SpecError, match=said) as caught:
            trust(tmp_path / name)
        assert caught.value.fix
    assert not list_of_folders().exists()


def test_a_folder_that_is_gone_can_be_forgotten_and_one_below_another_cannot(tmp_path):
    place = folder(tmp_path / "mine")
    trust(place)
    with pytest.raises(SpecError, match="a folder above it") as caught:
        forget(folder(place / "deep"))
    assert str(caught.value.fix) == f"plat trust --remove {place}"
    os.rename(place, tmp_path / "other")
    with pytest.raises(SpecError, match="not trusted"):
        forget(tmp_path / "other")
    assert forget(place) == place


@pytest.mark.parametrize("damage", ["relative/path\n", "\n", "/a\0b\n"])
def test_a_damaged_list_is_one_error_with_its_line_and_stays(config, tmp_path, damage):
    place = folder(tmp_path / "mine")
    trust(place)
    with open(list_of_folders(), "a") as file:
        file.write(damage)
    before = list_of_folders().read_bytes()
    for attempt in (trusted_folders, lambda: trust(tmp_path / "config"), lambda: allowed(place / "a.yaml")):
        with pytest.raises(SpecError, match="damaged") as caught:
            attempt()
        assert caught.value.where == f"{list_of_folders()}:2"
    assert list_of_folders().read_bytes() == before


def test_a_list_that_cannot_be_read_or_written_is_one_error(config, tmp_path):
    place = folder(tmp_path / "mine")
    config.touch()
    assert trusted_folders() == []
    with pytest.raises(SpecError, match="cannot change the list") as caught:
        trust(place)
    assert caught.value.where == str(list_of_folders())
    config.unlink()
    folder(list_of_folders())
    with pytest.raises(SpecError, match="cannot read the list"):
        trusted_folders()


def test_a_relative_config_folder_is_ignored_as_the_standard_says(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert list_of_folders() == tmp_path / "users" / "me" / ".config" / "plat" / "trusted-folders.txt"
