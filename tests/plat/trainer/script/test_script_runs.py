"""Whole runs of scripts: swept, killed, resumed, stopped."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from script_runs import COUNTS, experiment, runs_of

from plat.processes.process_tree import MARK
from plat.store.run_directory.history import run_history
from plat.store.run_directory.paths import RunPaths

Verb = Callable[..., tuple[int, str, str]]


def curve(run: RunPaths, name: str = "loss") -> list[tuple[int, float]]:
    return [(row.step, row.value) for row in run_history(run)[0] if row.key == name]


def marked(folder: Path) -> list[int]:
    """Return the processes that a run of this folder has started and that are still alive."""
    found = []
    for process in Path("/proc").iterdir():
        try:
            environment = (process / "environ").read_bytes() if process.name.isdigit() else b""
        except OSError:
            continue
        if f"{MARK}={os.path.realpath(folder)}".encode() in environment:
            found.append(int(process.name))
    return found


def test_the_same_metrics_whatever_way_a_script_logs_them(plat: Verb, project: Path) -> None:
    ways = {
        "printed": "print(json.dumps({'step': step, 'loss': 1 / step}))",
        "logged": "plat.log(step, loss=1 / step)",
        "lines": "file.write(json.dumps({'step': step, 'loss': 1 / step}) + chr(10))",
        "csv": "file.write(f'{step},{1 / step}' + chr(10))",
    }
    for name, way in ways.items():
        opened = "file = open(pathlib.Path(os.environ['PLAT_RUN_DIR'], 'values.csv'), 'w')\n"
        opened += "file.write('step,loss' + chr(10))\n" if name == "csv" else ""
        text = f"import json, os, pathlib, plat\n{opened}for step in range(1, 6):\n    {way}\n"
        (project / f"{name}.py").write_text(text)
    path = experiment(project, "python {way}.py", "script.metrics: values.csv", way=["printed", "logged", "csv"])
    assert plat("sweep", path)[0] == 0
    assert [curve(run) for run in runs_of(project)] == [[(step, 1 / step) for step in range(1, 6)]] * 3
    (project / "lines.py").write_text((project / "lines.py").read_text().replace("values.csv", "values.jsonl"))
    path = experiment(project, "python lines.py", "script.metrics: values.jsonl")
    assert plat("sweep", path)[0] == 0
    assert [(step, 1 / step) for step in range(1, 6)] in [curve(run) for run in runs_of(project)]


def test_a_function_is_called_with_the_values_and_its_numbers_are_logged(plat: Verb, project: Path) -> None:
    text = "import plat\ndef train(lr, seed):\n    plat.log(1, loss=lr)\n    return {'loss': lr / 2, 'seed': seed}\n"
    (project / "mine.py").write_text(text)
    path = project / "f.yaml"
    path.write_text(
        "title: x\nbase: {trainer: script, script.function: 'mine:train'}\nmatrix: {lr: [4, 8], seed: [3]}\n"
    )
    assert plat("sweep", path)[0] == 0
    assert sorted(curve(run) for run in runs_of(project)) == [[(1, 4.0), (2, 2.0)], [(1, 8.0), (2, 4.0)]]
    assert [curve(run, "seed") for run in runs_of(project)] == [[(2, 3.0)]] * 2
    (project / "mine.py").write_text(text.replace("/ 2", "/ 3"))
    assert "mine.py changed since 2 runs" in "".join(plat("plan", path)[1:])
    path.write_text(path.read_text().replace("lr:", "lrr:"))
    assert "unexpected keyword argument 'lrr'" in " ".join(plat("sweep", path)[1].split())


def test_a_killed_script_resumes_from_what_it_saved(plat: Verb, project: Path) -> None:
    (project / "train.py").write_text(COUNTS)
    assert plat("sweep", experiment(project, "python train.py --crash"))[0] == 0
    (run,) = runs_of(project)
    assert len(run.attempts()) == 2 and "restored_step" in (run.attempt(2).meta).read_text()
    assert curve(run) == [(step, 1 / step) for step in range(1, 9)]


@pytest.mark.parametrize("rewrites", [False, True])
def test_metrics_after_the_newest_checkpoint_are_kept(plat: Verb, project: Path, rewrites: bool) -> None:
    saves = "kept.write_text(str(step))" if rewrites else "step == 3 and kept.write_text('3')"
    lines = [
        "import json, os, pathlib, time",
        "kept = pathlib.Path(os.environ['PLAT_CHECKPOINT_DIR'], 'step.txt')",
        "for step in range(1, 81):",
        f"    {saves}",
        "    print(json.dumps({'step': step, 'loss': 1}))",
        "    time.sleep(0.01)",
    ]
    (project / "train.py").write_text("\n".join(lines) + "\n")
    assert plat("sweep", experiment(project, "python train.py"))[0] == 0
    (run,) = runs_of(project)
    assert curve(run) == [(step, 1.0) for step in range(1, 81)]


def test_a_single_file_that_changes_all_the_time_is_kept(plat: Verb, project: Path) -> None:
    (project / "train.py").write_text(
        COUNTS.replace("kept.write_text(str(step))", "kept.write_text(str(step)); time.sleep(0.05)")
        .replace("range(first, 9)", "range(first, 46)")
        .replace("step == 6", "step == 42")
        .replace("time.sleep(1)", "")
        .replace("time.sleep(0.15)", "time.sleep(0.1)")
    )
    assert plat("sweep", experiment(project, "python train.py --crash"))[0] == 0
    (run,) = runs_of(project)
    restored = json.loads(run.attempt(2).meta.read_text())["restored_step"]
    assert 0 < restored < 42 and curve(run) == [(step, 1 / step) for step in range(1, 46)]


def test_a_script_that_saves_nothing_starts_anew(plat: Verb, project: Path) -> None:
    (project / "train.py").write_text(
        COUNTS.replace("kept.write_text(str(step))", "pathlib.Path('first').touch()").replace(
            "first == 1 and", "not pathlib.Path('second').exists() and not pathlib.Path('second').touch() and"
        )
    )
    assert plat("sweep", experiment(project, "python train.py --crash"))[0] == 0
    (run,) = runs_of(project)
    assert len(run.attempts()) == 2 and curve(run) == [(step, 1 / step) for step in range(1, 9)]
    assert "starts anew" in run.attempt(2).log.read_text()


@pytest.mark.parametrize("stubborn", [False, True])
def test_ctrl_c_ends_the_script_and_the_next_sweep_resumes_it(plat: Verb, project: Path, stubborn: bool) -> None:
    handled = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" if stubborn else ""
    text = COUNTS.replace("first =", f"{handled}first =", 1)
    (project / "train.py").write_text(
        text.replace("time.sleep(0.15)", "time.sleep(60 if step == 4 and first == 1 else 0.15)")
    )
    path = experiment(project, "python train.py", "script.grace: 0.5")
    sweep = subprocess.Popen([sys.executable, "-m", "plat", "sweep", path], cwd=project, stdout=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while time.monotonic() < until and not any(curve_so_far(run, 3) for run in runs_of(project)):
        time.sleep(0.05)
    sweep.send_signal(signal.SIGINT)
    assert sweep.wait(60) != 0 and marked(project) == []
    assert plat("sweep", path)[0] == 0
    (run,) = runs_of(project)
    assert curve(run) == [(step, 1 / step) for step in range(1, 9)] and len(run.attempts()) == 2


def curve_so_far(run: RunPaths, step: int) -> bool:
    try:
        return f'"step":{step}' in run.attempt(1).events.read_text().replace(" ", "")
    except OSError:
        return False


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("print('no metric')", "the script ended well and logged no metric"),
        ("raise SystemExit('no data')", "the script ended with exit code 1: no data"),
        ('print(\'{"step": 2, "a": 1}\')\nprint(\'{"step": 1, "a": 1}\')', "logged step 1 after step 2"),
        ('print(\'{"step": 1.5, "a": 1}\')', "no whole number from 0 to 2**53: step is 1.5"),
    ],
)
def test_a_script_that_fails_is_explained_in_a_sentence(plat: Verb, project: Path, text: str, says: str) -> None:
    (project / "train.py").write_text(text + "\n")
    code, out, err = plat("sweep", experiment(project, "python train.py"))
    assert code != 0 and says in " ".join((out + err).split())


def test_daemons_of_a_script_end_with_it(plat: Verb, project: Path) -> None:
    (project / "run.sh").write_text("setsid sleep 300 &\nsetsid setsid sleep 300 &\necho '{\"loss\": 1}'\n")
    assert plat("sweep", experiment(project, "bash run.sh"))[0] == 0
    assert marked(project) == []


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("./run.sh", "run.sh is not executable"),
        ("no-such-program x", "there is no program 'no-such-program' here"),
        ("bash rum.sh", "did you mean 'run.sh'"),
    ],
)
def test_a_program_that_cannot_start_is_refused_before_anything_runs(
    plat: Verb, project: Path, command: str, says: str
) -> None:
    (project / "run.sh").write_text("echo\n")
    code, _, err = plat("sweep", experiment(project, command))
    assert code == 2 and says in err and runs_of(project) == []


def test_an_axis_of_the_command_line_splits_tables_and_claims(project: Path, plat: Verb) -> None:
    text = "import json, os, sys\nloss = float(sys.argv[1]) * (10 + 0.1 * int(os.environ['PLAT_SEED']))\n"
    Path("t.py").write_text(text + "print(json.dumps({'step': 1, 'loss': loss}))\n")
    path = experiment(project, "python t.py {lr} {wd}", "wd: 0", lr=[1, 2], seed=[0, 1, 2, 3, 4])
    with path.open("a") as file:
        file.write("report: [{builder: metric_table, metrics: [loss], percent: false}]\n")
        file.write("claims: [{id: more, says: M., check: mean_delta_positive, measure: {metric: loss}, smallest: 1}]\n")
    code, out, err = plat("sweep", path, "wd=0,1")
    assert code == 0, err
    assert [line for line in out.splitlines() if line.startswith(("loss (", "The effect of"))] == [
        "The effect of wd on loss",
        "loss (wd = 0)",
        "loss (wd = 1)",
    ]
    assert "lr = 2   20.4" in out and "shown  more/wd-0" in out and "shown  more/wd-1" in out
    assert "/wd-1: " in out and len(runs_of(project)) == 20


def test_a_run_that_diverges_has_no_value_at_its_end(project: Path, plat: Verb) -> None:
    text = (
        "import json, sys\nfor step in (1, 2, 3):\n    loss = 0.1 if step < 3 or sys.argv[1] == '1' else float('nan')\n"
    )
    Path("t.py").write_text(text + "    print(json.dumps({'step': step, 'loss': loss}))\n")
    code, out, err = plat("sweep", experiment(project, "python t.py {lr}", lr=[1, 2], seed=[0, 1, 2]))
    assert code == 0, err
    assert "loss is no finite number from step 3 on" in out and "lr = 2" in out


SHADOWING = ("types", "json", "enum", "typing", "inspect", "token", "plat", "yaml", "re", "os", "numpy")


@pytest.mark.parametrize("line", ["script.command: python sub/t.py", "script.function: mine:train"])
def test_files_of_the_user_never_reach_plat(project: Path, line: str) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "t.py").write_text("print('{\"loss\": 1}')\n")
    (project / "mine.py").write_text("def train():\n    return {'loss': 1.0}\n")
    for name in SHADOWING:
        (project / f"{name}.py").write_text(f"open({str(project / 'reached')!r}, 'a').write('{name} ')\n")
    (project / "x.yaml").write_text(f"title: x\nbase: {{trainer: script, {line}}}\n")
    for verb in ("plan", "sweep", "status", "report"):
        code = "import sys; sys.argv[0] = 'plat'; from plat.entry import main; main()"
        done = subprocess.run([sys.executable, "-P", "-c", code, verb, "x.yaml"], capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    assert not (project / "reached").exists(), (project / "reached").read_text()


def test_the_python_of_plat_or_a_named_one_runs_the_script(plat: Verb, project: Path) -> None:
    (project / "t.py").write_text("import json, os, sys\nprint(json.dumps({'loss': 1}))\nprint(sys.executable)\n")
    named = project / "env" / "bin" / "python"
    named.parent.mkdir(parents=True)
    named.write_text(f'#!/bin/sh\necho NAMED\nexec {sys.executable} "$@"\n')
    named.chmod(0o755)
    for command in ("python t.py", "bash -c 'python t.py'", "env python t.py", "{plat.python} t.py", "{python} t.py"):
        assert plat("sweep", experiment(project, command))[0] == 0
        assert sys.executable in (runs_of(project)[0].attempt(1).root / "log.txt").read_text()
        assert plat("sweep", experiment(project, command, "script.python: env/bin/python"))[0] == 0
        assert len(runs_of(project)) == 1  # the same run
        shutil.rmtree(project / "plat-home")
        assert plat("sweep", experiment(project, command, "script.python: env/bin/python"))[0] == 0
        assert "NAMED" in (runs_of(project)[0].attempt(1).root / "log.txt").read_text()
        shutil.rmtree(project / "plat-home")
    code, _, err = plat("sweep", experiment(project, "python t.py", "script.python: env/bin/pyton"))
    assert code == 2 and "there is no Python" in err


def test_a_missing_module_names_the_python(plat: Verb, project: Path) -> None:
    (project / "t.py").write_text("import no_such_module\n")
    code, out, err = plat("sweep", experiment(project, "python t.py"))
    assert code == 3 and f"install it for {sys.executable}" in " ".join((out + err).split())


def test_the_reason_of_a_hydra_run_is_its_error(plat: Verb, project: Path) -> None:
    last = "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."
    (project / "t.py").write_text(f"print('ValueError: too large')\nprint()\nprint({last!r})\nraise SystemExit(1)\n")
    _, out, err = plat("sweep", experiment(project, "python t.py"))
    assert "exit code 1: ValueError: too large" in " ".join((out + err).split())
    (project / "t.py").write_text("print('the reason')\nprint('=' * 60)\nraise SystemExit(1)\n")
    _, out, err = plat("sweep", experiment(project, "python t.py"))
    assert "exit code 1: the reason" in " ".join((out + err).split())
    (project / "t.py").write_text("raise RuntimeError('cannot open data.bin\\nCheck the docs.\\n\\nSee https://x.y')\n")
    _, out, err = plat("sweep", experiment(project, "python t.py"))
    assert "exit code 1: RuntimeError: cannot open data.bin" in " ".join((out + err).split())


def test_a_run_with_nan_as_a_value_works(plat: Verb, project: Path) -> None:
    (project / "t.py").write_text("import sys\nprint('{\"loss\": 1}')\nprint(sys.argv[1:])\n")
    path = project / "nan.yaml"
    path.write_text("title: x\nbase: {trainer: script, script.command: python t.py {v}}\nmatrix: {v: [.nan, 1]}\n")
    path.write_text(path.read_text().replace("python t.py {v}", "'python t.py {v}'"))
    code, out, err = plat("sweep", path)
    assert code == 0, out + err
    assert any("['NaN']" in (run.attempt(1).root / "log.txt").read_text() for run in runs_of(project))


def test_a_resume_has_its_flag(plat: Verb, project: Path) -> None:
    text = COUNTS.replace("import json, os,", "import json, os,").replace(
        'if step == 6 and first == 1 and "--crash" in sys.argv', "if step == 6 and first == 1"
    )
    (project / "train.py").write_text(text + "print('ARGUMENTS', sys.argv[1:])\n")
    assert plat("sweep", experiment(project, "python train.py {checkpoint?--resume {checkpoint}}"))[0] == 0
    (run,) = runs_of(project)
    assert "ARGUMENTS ['--resume', '/" in (run.attempt(2).root / "log.txt").read_text()


def test_a_group_of_hydra_and_a_value_in_it_are_axes_of_one_file(plat: Verb, project: Path) -> None:
    (project / "app.py").write_text("import sys\nprint('{\"loss\": 1}')\nprint('GIVEN', *sys.argv[1:])\n")
    axes = {"optim": ["adam", "sgd"], "optim.lr": [0.1, 0.2]}
    for order in (axes, dict(reversed(axes.items()))):
        path = experiment(project, "python app.py optim={optim} optim.lr={optim.lr}", **order)
        assert plat("sweep", path)[0] == 0
    logs = [(run.attempt(1).root / "log.txt").read_text() for run in runs_of(project)]
    given = sorted(line for log in logs for line in log.splitlines() if line.startswith("GIVEN"))
    assert given == [f"GIVEN optim={name} optim.lr={lr}" for name in ("adam", "sgd") for lr in (0.1, 0.2)]
    assert plat("report", path)[0] == 0 and plat("status", path)[0] == 0
