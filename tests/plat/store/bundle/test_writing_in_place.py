"""What is in the way stays, and a full disk or a kill leaves nothing half done."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys

import pytest
from bundle_files import contents

from plat.errors import BundleError, HomeError
from plat.store.bundle.bundle_importer import SCRATCH, import_bundle
from plat.store.bundle.exporter import export_bundle
from plat.store.run_directory.state import run_state


def test_what_cannot_travel_is_named(exported, recipe, tmp_path):
    home, file, _, _ = exported
    home.run(recipe(0).id).config.write_text("a: [")
    events = home.run(recipe(1).id).attempt(1).events
    events.write_text(events.read_text().replace('"step"', '"stop"', 1))
    report = export_bundle(home, [file], tmp_path / "second")
    assert report.done == 1 and set(report.left_out) == {"run-00000000", "run-00010000", "run-00040000"}
    assert "config" in report.left_out["run-00000000"] and "damaged" in report.left_out["run-00010000"]


def test_nothing_to_export(home, experiment, recipe, tmp_path):
    with pytest.raises(BundleError, match="nothing to export"):
        export_bundle(home, [experiment("table4", [recipe(1)])], tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_what_is_in_the_way_stays(exported, tmp_path):
    home, file, folder, _ = exported
    before = contents(folder)
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match=r"not its own: notes.txt"):
        export_bundle(home, [file], folder)
    assert contents(folder) == before | {"notes.txt": b"mine"}
    (tmp_path / "file").write_text("mine")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "folder")
    for name in ("file", "folder", "link"):
        with pytest.raises(BundleError, match="in the way"):
            export_bundle(home, [file], tmp_path / name)
    with pytest.raises(BundleError, match="could not be written"):
        export_bundle(home, [file], tmp_path / "file" / "below")
    assert (tmp_path / "folder" / "thesis.tex").read_text() == "mine"


def _on_a_full_disk(limit, function):
    """Call it in a child process in which no file can grow beyond `limit` bytes; 7 when it says what happened."""
    child = os.fork()
    if child == 0:
        code = 9
        try:
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            function()
            code = 0
        except (BundleError, HomeError) as error:
            code = 7 if "could not be written" in error.what else 8
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def test_a_full_disk_leaves_the_earlier_bundle(exported):
    home, file, folder, _ = exported
    before = contents(folder)
    assert _on_a_full_disk(4000, lambda: export_bundle(home, [file], folder)) == 7
    assert contents(folder) == before and not list(folder.parent.glob(".tmp*"))


def test_a_full_disk_imports_nothing(exported, make_home, recipe, on_disk, tmp_path):
    home, _, _, _ = exported
    long = recipe(9, steps=400)
    long.write(home)
    export_bundle(home, [on_disk("long", [recipe(1), long])], tmp_path / "second")
    other = make_home("other")
    uri = other.store_uri()
    assert _on_a_full_disk(50_000, lambda: import_bundle(other, uri, tmp_path / "second")) == 7
    assert not contents(other.runs) and not (other.root / SCRATCH).exists()
    assert len(import_bundle(other, uri, tmp_path / "second").new) == 2


KILLED = """
import os, sys
from pathlib import Path
from plat.store.bundle import bundle_importer as bundle_import
from plat.store.home import Home
moves, real = int(sys.argv[3]), bundle_import._put_in_place
def move(staged, target):
    global moves
    if moves == 0:
        os.kill(os.getpid(), 9)
    moves -= 1
    real(staged, target)
bundle_import._put_in_place = move
home = Home(Path(sys.argv[1]))
bundle_import.import_bundle(home, home.store_uri(), Path(sys.argv[2]))
"""


def test_a_kill_leaves_whole_runs_and_the_same_command_brings_the_rest(exported, make_home, recipes):
    _, _, folder, _ = exported
    other = make_home("other")
    done = subprocess.run([sys.executable, "-c", KILLED, other.root, folder, "2"], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    states = [run_state(other.run(item.id)).state for item in recipes[:4]]
    assert states == ["done", "done", "missing", "missing"]
    assert len(import_bundle(other, other.store_uri(), folder).new) == 2
    assert not list(other.root.glob(".tmp*"))
