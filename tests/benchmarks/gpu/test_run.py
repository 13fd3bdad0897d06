"""The runner of the kit, with steps that need no GPU: real processes, killed, cut off and called again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest
from parts import write_parts

KIT = Path(__file__).parents[3] / "benchmarks" / "gpu"
THIS = ".".join(map(str, sys.version_info[:2]))
STEP = """
import time
from pathlib import Path
from steps.step import Step
step = Step({name!r})
def work(text):
    with open(step.folder / "worked.txt", "a") as log: print({name!r}, text, file=log)
    {body}
    return {{"value": text}}
step.measure("one", lambda: work("one"))
step.measure("two", lambda: work("two"))
"""
BODIES = {
    "models": "pass",
    "embedded": "time.sleep(.1 if text == 'one' else 60 if not (step.folder / 'fast').exists() else 0)",
    "rate": "1 / 0 if text == 'two' and not (step.folder / 'fast').exists() else 0",
    "saving": "pass",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with the kit, whose steps are those above; the steps of verl have no packages."""
    kit = tmp_path / "tree" / "benchmarks" / "gpu"
    shutil.copytree(KIT, kit, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (kit / "steps").glob("*.py"):
        if path.name not in ("__init__.py", "step.py"):
            path.unlink()
    for name, body in BODIES.items():
        (kit / "steps" / f"{name}.py").write_text(STEP.format(name=name, body=body))
    text = (kit / "run.py").read_text()
    for module in ("ray", "verl", "transfer_queue"):
        text = text.replace(f'"{module}"', f'"not_there_{module}"')
    (kit / "run.py").write_text(text.replace("LEAST = 15.0", "LEAST = 1.0"))
    return tmp_path / "tree"


def start(tree: Path, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(tree / "benchmarks" / "gpu" / "run.py"), "--device", "cpu", "--tiny"]
    environment = {name: value for name, value in os.environ.items() if name != "OUT"}
    return subprocess.Popen(
        [*command, *map(str, words)], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment
    )


def call(tree: Path, *words: object) -> tuple[int, str]:
    process = start(tree, *words)
    said = process.communicate(timeout=120)[0]
    return process.returncode, said


def work_of(tree: Path) -> Path:
    return tree / "build" / "gpu" / "work-cpu-tiny"


def results(tree: Path) -> dict[str, dict]:
    with tarfile.open(tree / "build" / "gpu" / "out" / "results.tar.gz") as archive:
        names = [name for name in archive.getnames() if name.endswith(".json")]
        return {name.removesuffix(".json"): json.load(archive.extractfile(name)) for name in names}


def fast(tree: Path) -> None:
    work_of(tree).mkdir(parents=True, exist_ok=True)
    (work_of(tree) / "fast").touch()


def worked(tree: Path) -> list[str]:
    return (work_of(tree) / "worked.txt").read_text().splitlines()


def test_steps_run_in_order_and_a_second_call_does_nothing_again(tree):
    fast(tree)
    code, said = call(tree)
    assert code == 3  # verl is not there
    assert worked(tree) == [f"{name} {part}" for name in BODIES for part in ("one", "two")]
    found = results(tree)
    assert {name: found[name]["state"] for name in BODIES} == dict.fromkeys(BODIES, "done")
    assert found["machine"]["tiny"] is True and "torch" in found["machine"]["packages"]
    assert "verl_grpo: waits for not_there_verl" in said and "4 of 6 steps are done" in said
    assert (tree / "build" / "gpu" / "out" / "run.log").read_text() == said
    code, said = call(tree)
    assert said.count("done before") == 4 and len(worked(tree)) == 8


def test_a_killed_call_loses_only_what_it_had_not_measured(tree):
    process = start(tree)
    _until(lambda: (work_of(tree) / "worked.txt").exists() and "embedded two" in worked(tree))
    process.kill()
    process.communicate(timeout=30)
    _until(lambda: not _processes_of(tree))  # the step ends with its parent
    fast(tree)
    call(tree)
    assert worked(tree).count("embedded one") == 1 and worked(tree).count("models one") == 1
    assert results(tree)["embedded"]["measured"] == {"one": {"value": "one"}, "two": {"value": "two"}}


def test_a_call_that_is_asked_to_end_keeps_everything_and_leaves_no_process(tree):
    process = start(tree)
    _until(lambda: (work_of(tree) / "worked.txt").exists() and "embedded two" in worked(tree))
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=30)[0]
    assert process.returncode == 128 + signal.SIGTERM and "stopped by SIGTERM" in said
    assert results(tree)["embedded"]["measured"] == {"one": {"value": "one"}}
    assert not _processes_of(tree)


def test_when_the_time_is_over_the_rest_is_said(tree):
    code, said = call(tree, "--seconds", 5)
    assert code == 3
    assert "embedded: cut off after" in said and "1 measurements are kept" in said
    assert "rate: not started" in said and "saving: not started" in said
    assert results(tree)["embedded"]["state"] == "cut off"


def test_an_error_of_a_measurement_is_one_line_and_the_others_go_on(tree):
    fast(tree)
    (work_of(tree) / "steps").mkdir()
    embedded = {"state": "done", "measured": {}}
    (work_of(tree) / "steps" / "embedded.json").write_text(json.dumps(embedded))
    (work_of(tree) / "fast").unlink()
    code, said = call(tree)
    assert code == 3 and "rate: failed" in said and "two: division by zero" in said and "Traceback" not in said
    assert results(tree)["rate"]["measured"]["one"] == {"value": "one"}
    assert results(tree)["saving"]["state"] == "done"
    fast(tree)  # mended: only the failed one is done again
    call(tree)
    assert worked(tree).count("rate one") == 1 and results(tree)["rate"]["state"] == "done"


def wheel(folder: Path, name: str, size: int) -> Path:
    """A wheel of one module."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr(f"{name}.py", "x = 1\n#" + os.urandom(size).hex())
        information = f"{name}-1.0.dist-info/"
        packed.writestr(information + "METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        packed.writestr(information + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(information + "RECORD", "")
    return path


@pytest.fixture
def parts(tmp_path: Path) -> list[Path]:
    wheels = [wheel(tmp_path, f"not_there_{name}", 3000) for name in ("verl", "ray", "transfer_queue")]
    return write_parts(wheels, tmp_path / "parts", 8000, THIS)


def test_a_step_waits_for_its_parts_and_runs_when_they_come(tree, parts):
    fast(tree)
    assert len(parts) == 3
    for name in ("verl_grpo", "verl_ppo"):
        (tree / "benchmarks" / "gpu" / "steps" / f"{name}.py").write_text(
            STEP.format(name=name, body="import not_there_ray")
        )
    _, said = call(tree, "--part", parts[0])
    assert "part 2, 3 of 3 has not come yet" in said
    _, said = call(tree, "--part", parts[2])
    assert "verl_grpo: waits for not_there_ray" in said
    code, said = call(tree, "--part", parts[1])
    assert code == 0 and "verl_grpo: done after" in said and "6 of 6 steps are done" in said


def test_wrong_parts_are_one_line_each(tree, parts, tmp_path):
    fast(tree)
    (piece,) = [path for path in parts[0].iterdir() if path.suffix == ".whl"][:1]
    piece.write_bytes(piece.read_bytes() + b"x")
    _, said = call(tree, "--part", parts[0])
    assert "damaged" in said and "send part 1 again" in said and "models: done" in said
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "fast").touch()
    other = write_parts([wheel(tmp_path, "other", 10)], tmp_path / "old", 8000, "3.7")
    _, said = call(tree, "--part", other[0], "--folder", tmp_path / "elsewhere")
    assert f"the wheels are for Python 3.7, this is {THIS}: none is installed" in said and "models: done" in said
    code, said = call(tree, "--part", tmp_path / "nowhere")
    assert code == 2 and "nowhere does not exist" in said and "Traceback" not in said


def test_results_of_another_device_are_not_mixed(tree, tmp_path):
    fast(tree)
    call(tree, "--only", "models")
    command = [
        sys.executable,
        str(tree / "benchmarks" / "gpu" / "run.py"),
        "--device",
        "cpu",
        "--folder",
        str(work_of(tree)),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "another device or size" in done.stdout


def test_results_of_a_machine_that_is_gone_are_continued_and_its_models_are_made_anew(tree, tmp_path):
    fast(tree)
    call(tree, "--only", "models", "--only", "embedded")
    archive = shutil.copy(tree / "build" / "gpu" / "out" / "results.tar.gz", tmp_path)
    shutil.rmtree(tree / "build")
    fast(tree)
    _, said = call(tree, "--earlier", archive)
    assert "embedded: done before" in said and "models: done after" in said and "embedded one" not in worked(tree)


@pytest.mark.parametrize("harm", ["text", "cut", "no machine", "other device", "no object"])
def test_an_archive_that_does_not_fit_is_refused_in_one_line(tree, tmp_path, harm):
    archive = tmp_path / "earlier.tar.gz"
    records = {
        "machine": {"device": "cuda" if harm == "other device" else "cpu", "tiny": True},
        "embedded": {"state": "done"},
    }
    if harm == "no machine":
        del records["machine"]
    if harm == "no object":
        records["machine"] = [1]
    with tarfile.open(archive, "w:gz") as packed:
        for name, record in records.items():
            (tmp_path / f"{name}.json").write_text(json.dumps(record))
            packed.add(tmp_path / f"{name}.json", f"{name}.json")
    if harm in ("text", "cut"):
        archive.write_bytes(b"hello" if harm == "text" else archive.read_bytes()[:150])
    code, said = call(tree, "--earlier", archive)
    assert code == 2 and str(archive) in said and "Traceback" not in said and "models" not in said


def test_two_calls_at_once_are_refused(tree):
    process = start(tree)
    _until(lambda: (work_of(tree) / "worked.txt").exists() and "embedded two" in worked(tree))
    code, said = call(tree)
    assert code == 2 and "another call uses" in said
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)


def test_a_step_that_leaves_something_out_is_tried_again(tree):
    fast(tree)
    (tree / "benchmarks" / "gpu" / "steps" / "rate.py").write_text(
        STEP.format(name="rate", body="pass").replace(
            'step.measure("two"',
            'step.unable = lambda *_: "" if (step.folder / "card").exists() else "no card"\nstep.measure("two"',
        )
    )
    code, said = call(tree)
    assert code == 3 and "rate: left out after" in said and "two: no card" in said
    (work_of(tree) / "card").touch()
    call(tree)
    assert results(tree)["rate"]["state"] == "done" and worked(tree).count("rate one") == 1


def test_without_a_gpu_nothing_is_called_done(tree):
    command = [sys.executable, str(tree / "benchmarks" / "gpu" / "run.py"), "--device", "cuda"]
    environment = {**os.environ, "PATH": os.path.dirname(sys.executable)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 2 and "there is no GPU to run on" in done.stdout


@pytest.mark.parametrize("place", ["--out", "--folder"])
def test_a_place_that_cannot_be_written_is_one_line(tree, tmp_path, place):
    (tmp_path / "file").write_text("")
    code, said = call(tree, place, tmp_path / "file" / "below")
    assert code == 2 and "cannot write" in said and "Traceback" not in said


def test_a_damaged_record_of_a_step_is_made_anew(tree):
    fast(tree)
    (work_of(tree) / "steps").mkdir()
    for name, text in (("models", ""), ("rate", "[]"), ("saving", '{"measured": {"one": 3}}')):
        (work_of(tree) / "steps" / f"{name}.json").write_text(text)
    call(tree)
    assert {name: results(tree)[name]["state"] for name in BODIES} == dict.fromkeys(BODIES, "done")


def test_a_wheel_that_pip_refuses_holds_up_no_other(tree, tmp_path):
    fast(tree)
    bad = tmp_path / "bad-1.0-cp27-none-any.whl"
    shutil.copy(wheel(tmp_path, "bad", 10), bad)
    parts = write_parts([bad, wheel(tmp_path, "good_one", 10)], tmp_path / "parts", 80000, THIS)
    _, said = call(tree, "--part", parts[0])
    assert "bad-1.0-cp27-none-any.whl cannot be installed" in said and "installed 1 packages" in said
    assert (work_of(tree) / "site" / "good_one.py").exists()


def test_a_piece_that_was_damaged_after_it_came_is_asked_for_again(tree, parts):
    fast(tree)
    call(tree, "--part", parts[0], "--only", "models")
    (piece,) = (work_of(tree) / "parts" / "pieces").iterdir()
    piece.write_bytes(piece.read_bytes()[:-1] + b"x")
    _, said = call(tree, "--part", parts[1])
    assert "its pieces were damaged after they came: send them again" in said and "models: done before" in said
    _, said = call(tree, "--part", parts[0], "--part", parts[1], "--part", parts[2])
    assert "has not come yet" not in said


def _until(true: object, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.05)


def _processes_of(tree: Path) -> list[str]:
    said = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return [line for line in said.splitlines() if str(tree) in line and "steps." in line]
