"""Artifacts: files of any size that a run leaves behind, whole or not there, known by hash wherever the run goes."""

import json
import os
import shutil

import plat_toy
import pytest
from runner_runs import make

from plat.app.checking import check_kept_files
from plat.errors import RunError
from plat.runner.execution import execute
from plat.store.bundle.run import read_run, write_run
from plat.store.cleaning.garbage import garbage, remove_garbage
from plat.store.disk.durable import remove_scratch
from plat.store.home import Home
from plat.store.run_directory.artifact_files import artifacts_of, check_artifacts, damage, save_artifact
from plat.store.run_directory.paths import AttemptPaths, RunPaths
from plat.trainer.api import Outcome


def model(content):
    def write(folder):
        (folder / "shards").mkdir()
        (folder / "shards" / "1.safetensors").write_bytes(content)
        (folder / "config.json").write_text("{}")

    return write


def content_of(artifact):
    return (artifact.path / "files" / "shards" / "1.safetensors").read_bytes()


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


@pytest.fixture
def attempt(tmp_path):
    return AttemptPaths(tmp_path / "001")


def test_an_artifact_is_described_by_its_manifest(attempt):
    kept = save_artifact(attempt, "model", model(b"abc"))
    assert artifacts_of(attempt) == {"model": kept} and (kept.files, kept.bytes) == (2, 5)
    assert content_of(kept) == b"abc" and damage(kept.path) == ""
    again = save_artifact(attempt, "model", model(b"abcd"))
    assert content_of(again) == b"abcd" and again.sha256 != kept.sha256
    assert save_artifact(attempt, "copy", model(b"abc")).sha256 == kept.sha256
    assert artifacts_of(AttemptPaths(attempt.root / "none")) == {}


def test_damage_is_seen(attempt):
    kept = save_artifact(attempt, "model", model(b"abc"))
    (kept.path / "files" / "shards" / "1.safetensors").write_bytes(b"abd")
    assert "shards/1.safetensors" in damage(kept.path)
    (kept.path / "manifest.json").write_text('{"files": {}, "checksum": "0"}')
    assert "manifest.json" in damage(kept.path) and artifacts_of(attempt) == {}


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "a b", "ü", "x" * 101])
def test_wrong_names(attempt, name):
    with pytest.raises(RunError, match="name of an artifact") as error:
        save_artifact(attempt, name, model(b""))
    assert error.value.fix and not attempt.root.exists()


def test_what_is_interrupted_leaves_the_earlier_one(attempt):
    kept = save_artifact(attempt, "model", model(b"abc"))

    def fail(folder):
        model(b"abcd")(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        save_artifact(attempt, "model", fail)
    assert artifacts_of(attempt) == {"model": kept} and len(os.listdir(attempt.artifacts)) == 1
    pid = os.fork()
    if pid == 0:
        save_artifact(attempt, "model", lambda folder: os._exit(9))
    os.waitpid(pid, 0)
    assert artifacts_of(attempt) == {"model": kept} and len(os.listdir(attempt.artifacts)) == 2
    remove_scratch(attempt.artifacts)
    assert os.listdir(attempt.artifacts) == ["model"]


@pytest.fixture
def run(home, monkeypatch):
    """A done run with an artifact, whose first attempt failed after it had kept one."""

    def train(config, io):
        io.log(1, {"val/success": 1.0})
        io.artifact(
            "model", model(b"first" if io.restore() is None and not (home.cache / "second").exists() else b"last")
        )
        if not (home.cache / "second").exists():
            (home.cache / "second").touch()
            raise ValueError("after the artifact")
        return Outcome("finished")

    monkeypatch.setattr(plat_toy.Toy, "train", staticmethod(train))
    made = make(home)
    assert [execute(home, made.id) for _ in range(2)] == ["failed:error", "finished"]
    return made


def test_its_hash_is_in_the_result_and_travels_without_it(home, run, tmp_path):
    kept = artifacts_of(run.attempt(2))["model"]
    summary = json.loads(run.result.read_text())["summary"]
    assert content_of(kept) == b"last" and summary == {"artifact/model": kept.sha256}
    write_run(read_run(run), imported := RunPaths(tmp_path / run.id))
    assert json.loads(imported.result.read_text())["summary"] == summary and not imported.attempt(2).artifacts.exists()


def test_it_is_collected_and_copied_with_the_run(home, run, tmp_path):
    first, last = (artifacts_of(run.attempt(number))["model"] for number in (1, 2))
    assert [(item.kind, item.path) for item in garbage(home)] == [("artifacts", first.path)]
    remove_garbage(garbage(home))
    assert not artifacts_of(run.attempt(1)) and damage(last.path) == ""
    shutil.copytree(home.root, tmp_path / "copy")
    copied = artifacts_of(Home(tmp_path / "copy").run(run.id).attempt(2))["model"]
    assert copied.sha256 == last.sha256 and damage(copied.path) == damage(last.path) == ""


def test_the_deep_check_hashes_the_artifacts_of_done_runs(home, run):
    kept = artifacts_of(run.attempt(2))["model"]
    assert (check_artifacts(home.all_runs()).artifacts, check_artifacts(home.all_runs()).bytes) == (1, kept.bytes)
    assert [finding.level for finding in check_kept_files(home)] == ["ok"]
    earlier = artifacts_of(run.attempt(1))["model"]
    (earlier.path / "files" / "config.json").write_text("{ ")  # nobody will use it
    assert check_artifacts(home.all_runs()).damaged == {}
    (kept.path / "files" / "shards" / "1.safetensors").write_bytes(b"lost")
    assert "artifact model: the checksum of shards/1.safetensors" in check_artifacts(home.all_runs()).damaged[run.id]
    (finding,) = check_kept_files(home)
    assert finding.level == "error" and run.id in finding.says and finding.fix


def test_the_deep_check_knows_an_artifact_by_the_result(home, run):
    attempt = run.attempt(2)
    save_artifact(attempt, "model", model(b"another"))
    assert "not the one whose hash the result names" in check_artifacts(home.all_runs()).damaged[run.id]
    shutil.rmtree(attempt.artifacts / "model")
    assert check_artifacts(home.all_runs()).absent == [run.id] and check_artifacts(home.all_runs()).damaged == {}
    (finding,) = check_kept_files(home)
    assert finding.level == "warning" and run.id in finding.says


def test_a_home_without_artifacts_has_no_finding(home):
    assert check_kept_files(home) == []
