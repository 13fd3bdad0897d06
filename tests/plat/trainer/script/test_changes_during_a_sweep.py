"""Whole sweeps of scripts that change, vanish or get other limits meanwhile."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.store.home import Home

Verb = Callable[..., tuple[int, str, str]]


def experiment(*lines: str) -> None:
    base = "".join(f"  {line}\n" for line in ("trainer: script", "script.command: python train.py {seed}", *lines))
    Path("mine.yaml").write_text(f"title: x\nbase:\n{base}matrix: {{seed: [0, 1]}}\n")


@pytest.mark.parametrize("change", ["open('train.py', 'a').write('new = 1')", "os.remove('train.py')"])
def test_a_script_that_changes_while_the_sweep_runs_is_not_used(plat: Verb, project: Path, change: str) -> None:
    Path("train.py").write_text(f"import os, sys\nprint('{{\"loss\": 1}}')\nif sys.argv[1] == '0': {change}\n")
    experiment("script.snapshot: false")
    code, out, err = plat("sweep", "mine.yaml", "--jobs", "1")
    said = " ".join((out + err).split())
    assert code == 3 and " changed since this run was planned" in said, said
    assert "may be of two versions of the code: " in said and "train.py changed while it executed" in said, said
    assert len([*Path("plat-home").glob("runs/*/*/result.json")]) == 1  # it is kept, by name, and in no table


def test_a_package_that_changes_between_two_runs_of_one_process_is_not_used(
    plat: Verb, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "elsewhere").mkdir()
    package = project / "elsewhere" / "helping.py"
    package.write_text("rate = 1\n")
    monkeypatch.syspath_prepend(package.parent)
    monkeypatch.setenv("PYTHONPATH", str(package.parent), prepend=os.pathsep)
    (project / "here").mkdir()
    monkeypatch.chdir(project / "here")
    change = f"open({str(package)!r}, 'a').write('new = 1')"
    Path("train.py").write_text(f"import helping, sys\nprint('{{\"loss\": 1}}')\nif sys.argv[1] == '0': {change}\n")
    experiment("script.snapshot: false")
    code, out, err = plat("sweep", "mine.yaml", "--jobs", "1", "--home", project / "plat-home")
    said = " ".join((out + err).split())
    assert code == 3 and "helping.py changed since this run was planned" in said, said


def test_a_raised_timeout_counts_for_a_retry_and_makes_no_new_run(plat: Verb, project: Path) -> None:
    Path("train.py").write_text("import time; print('{\"loss\": 1}', flush=True); time.sleep(1.5)\n")
    experiment("script.timeout: 0.3")
    code, out, err = plat("sweep", "mine.yaml")
    assert code == 3 and "the script still ran after 0.3 s" in " ".join((out + err).split())
    experiment("script.timeout: 60")
    assert plat("retry", "mine.yaml")[0] == 0
    assert len(Home(project / "plat-home").run_ids()) == 2 and "Nothing to do" in plat("plan", "mine.yaml")[1]


def test_a_moved_script_resumes_from_its_new_folder(plat: Verb, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (project / "old").mkdir()
    monkeypatch.chdir(project / "old")
    Path("train.py").write_text("import os\nassert os.path.exists('ready')\nprint('{\"loss\": 1}')\n")
    experiment()
    assert plat("sweep", "mine.yaml", "--home", project / "plat-home")[0] == 3
    (project / "old").rename(project / "new")
    monkeypatch.chdir(project / "new")
    Path("ready").touch()
    assert plat("retry", "mine.yaml", "--home", project / "plat-home")[0] == 0
    assert len(Home(project / "plat-home").run_ids()) == 2


def test_links_among_checkpoints_are_links_again_after_a_kill(plat: Verb, project: Path) -> None:
    Path("train.py").write_text(
        "import json, os, time\n"
        "from pathlib import Path\n"
        "folder = Path(os.environ['PLAT_CHECKPOINT_DIR'])\n"
        "latest = folder / 'latest'\n"
        "first = int((latest / 'step.txt').read_text()) + 1 if latest.exists() else 1\n"
        "assert first == 1 or (latest.is_symlink() and not (folder / 'out').is_symlink())\n"
        "for step in range(first, 4):\n"
        "    (folder / f'step_{step}').mkdir()\n"
        "    (folder / f'step_{step}' / 'step.txt').write_text(str(step))\n"
        "    if latest.is_symlink(): latest.unlink()\n"
        "    latest.symlink_to(f'step_{step}')\n"
        "    if step == 1:\n"
        "        (folder / 'gone').symlink_to('step_0'); (folder / 'loop').symlink_to('.')\n"
        "        (folder / 'out').symlink_to('/etc')\n"
        "    print(json.dumps({'step': step, 'loss': first}), flush=True)\n"
        "    time.sleep(1)\n"
        "    if first == 1 and step == 2: os.kill(os.getpid(), 9)\n"
    )
    experiment()
    code, out, err = plat("sweep", "mine.yaml", "--jobs", "2")
    assert code == 0, out + err
    logs = [path.read_text() for path in sorted(Path("plat-home").glob("runs/*/*/attempts/*/log.txt"))]
    assert len(logs) == 4 and "leads to /etc, out of PLAT_CHECKPOINT_DIR: it is not kept" in logs[0], logs


def test_a_run_that_is_told_to_stop_each_time_fails_after_three_attempts(plat: Verb, project: Path) -> None:
    Path("train.py").write_text(
        "import os, sys, time\n"
        'print(\'{"step": 1, "loss": 1}\', flush=True)\n'
        "if sys.argv[1] == '0': os.kill(os.getppid(), 15); time.sleep(20)\n"
    )
    experiment()
    code, out, err = plat("sweep", "mine.yaml", "--jobs", "1")
    said = " ".join((out + err).split())
    assert code == 3 and "each of 3 attempts was told to stop (SIGTERM) before it got further" in said, said
    assert said.count("interrupted, asked to stop") == 2 and "1 of 2 runs" in said, said


@pytest.mark.parametrize(("last", "is_whole"), [("", False), ("wait", True)])
def test_a_script_that_goes_on_in_the_background_is_not_finished(
    plat: Verb, project: Path, last: str, is_whole: bool
) -> None:
    step = "print(json.dumps({'step': step, 'loss': 1 / step}), flush=True); time.sleep(0.4)"
    Path("train.py").write_text(f"import json, time\nfor step in range(1, 6): {step}\n")
    Path("run.sh").write_text(f"python train.py &\n{last}\n")
    experiment("script.files: [train.py]")
    Path("mine.yaml").write_text(Path("mine.yaml").read_text().replace("python train.py", "bash run.sh"))
    code, out, err = plat("sweep", "mine.yaml", "--jobs", "2")
    said = " ".join((out + err).split())
    assert (code == 0) == is_whole and ("the script went on in the background" in said) != is_whole, said
    results = len([*Path("plat-home").glob("runs/*/*/result.json")])
    assert results == (2 if is_whole else 0), said


def test_a_script_that_goes_on_to_write_into_a_file_is_not_finished(plat: Verb, project: Path) -> None:
    step = "file.write(json.dumps({'step': step, 'loss': 1 / step}) + '\\n'); file.flush(); time.sleep(0.3)"
    text = "import json, os, time\nfile = open(os.environ['PLAT_RUN_DIR'] + '/m.jsonl', 'w')\n"
    Path("train.py").write_text(text + f"for step in range(1, 16): {step}\n")
    Path("run.sh").write_text("setsid nohup python train.py > /dev/null 2>&1 &\nsleep 1\n")
    experiment("script.metrics: m.jsonl")
    Path("mine.yaml").write_text(Path("mine.yaml").read_text().replace("python train.py", "bash run.sh"))
    code, out, err = plat("sweep", "mine.yaml", "--jobs", "2")
    assert code == 3 and "the script went on in the background" in " ".join((out + err).split()), out + err
