"""Hostile bundles are refused as a whole, at once, with what to do; nothing is written. Harmless ones are taken."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path

import pytest
from bundle_files import contents
from hostile_bundles import REFUSED, TAKEN
from store_dump import dump

from plat.store.bundle.bundle_importer import import_bundle

LIMIT = 60  # seconds after which an import is taken to hang


@pytest.fixture(autouse=True)
def nothing_hangs():
    def late(*_):
        raise TimeoutError("the import hangs")

    earlier = signal.signal(signal.SIGALRM, late)
    signal.alarm(LIMIT)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, earlier)


def entries(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def test_they_are_many():
    assert len(REFUSED) >= 66


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_bundle_is_refused_and_nothing_is_written(exported, make_home, plat, tmp_path, name):
    _, _, folder, _ = exported
    REFUSED[name](folder)
    other = make_home("other")
    before, around = dump(other.store_uri()), entries(tmp_path)
    code, out, err = plat("import", folder, "--home", other.root)
    assert code == 2 and "a mistake in plat" not in err and "\x1b" not in out + err
    assert all(line in err for line in ("error: ", "at: ", "fix: ")), err
    assert entries(tmp_path) - around <= {"other/import.lock", "other/mlflow.db-shm", "other/mlflow.db-wal"}
    assert dump(other.store_uri()) == before and not Path("/tmp/plat-outside").exists()


@pytest.mark.parametrize("name", TAKEN)
def test_what_does_no_harm_is_imported_with_the_right_values(exported, make_home, plat, tmp_path, name):
    _, _, folder, _ = exported
    plain, other = make_home("plain"), make_home("other")
    import_bundle(plain, plain.store_uri(), shutil.copytree(folder, tmp_path / "good"))
    TAKEN[name](folder)
    assert plat("import", folder, "--home", other.root)[0] == 0
    assert contents(other.runs) == contents(plain.runs) and dump(other.store_uri()) == dump(plain.store_uri())
