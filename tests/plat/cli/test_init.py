"""`plat init` with real scripts: what it executes, what it writes, and that the file can be planned at once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.app.first_file import asking
from plat.app.first_file.asking import not_given
from plat.app.first_file.flags import flags_of_help
from plat.errors import SpecError
from plat.spec.reading.yaml_reader import read

Verb = Callable[..., tuple[int, str, str]]

ARGPARSE = """
import argparse, json
parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--lr", type=float, default=0.01, help="rate of learning")
parser.add_argument("--model", choices=["small", "big"], default="small")
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--verbose", action="store_true")
given = parser.parse_args()
open("trained", "w").close()
print(json.dumps({"loss": given.lr}))
"""
CLICK = """
import click, csv
@click.command()
@click.option("--lr", default=0.01)
def main(lr):
    open("trained", "w").close()
main()
"""
HYDRA = """
import signal
import subprocess
import sys
import hydra
print("a: warning", file=sys.stderr)
@hydra.main(version_base=None, config_path=".", config_name="config")
def main(config):
    open("trained", "w").close()
main()
"""
SHELL = """#!/bin/sh
case "$1" in --help) echo "  --lr RATE  the rate (default: 0.1)"; exit;; esac
touch trained
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def script(name: str, text: str) -> Path:
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def planned(plat: Verb, file: str) -> int:
    """The number of runs of a file."""
    code, out, err = plat("plan", file, "--json")
    assert code == 0, err
    return int(json.loads(out)["runs"]) if isinstance(json.loads(out)["runs"], int) else len(json.loads(out)["runs"])


def test_argparse(plat: Verb, here: Path) -> None:
    script("train.py", ARGPARSE)
    code, out, _ = plat("init", "train.py")
    assert code == 0 and "executed in .: python train.py --help" in out
    assert "4 of 4 flags" in out and out.endswith("next:\n  plat plan train.yaml\n  plat sweep train.yaml\n")
    base = {"trainer": "script", "lr": 0.01, "model": "small", "verbose": False}
    base["script.command"] = "python train.py --lr {lr} --model {model} --seed {seed} {verbose?--verbose}"
    assert read(here / "train.yaml").data == {"title": "Runs of train.py", "base": base, "matrix": {"seed": "range(5)"}}
    text = (here / "train.yaml").read_text()
    assert "  lr: 0.01  # rate of learning\n" in text and "  verbose: false\n" in text
    assert planned(plat, "train.yaml") == 5
    assert not Path("trained").exists()


def test_a_script_in_another_folder_and_a_name_for_the_file(plat: Verb, here: Path) -> None:
    script("code/train.py", ARGPARSE)
    (here / "files").mkdir()
    code, out, _ = plat("init", "code/train.py", "--out", "files/mine.yaml")
    assert code == 0 and "executed in code:" in out and "plat sweep files/mine.yaml" in out
    assert read(here / "files/mine.yaml").data["base"]["script.folder"] == "../code"
    assert planned(plat, "files/mine.yaml") == 5


def test_click_without_defaults_shown(plat: Verb, here: Path) -> None:
    script("train.py", CLICK)
    code, out, _ = plat("init", "train.py")
    assert code == 0 and "The script seems to log no metrics" not in out
    assert read(here / "train.yaml").data["base"]["lr"] == 0.01
    assert planned(plat, "train.yaml") == 1


def test_hydra(plat: Verb, here: Path) -> None:
    script("train.py", HYDRA)
    Path("config.yaml").write_text("optim: {lr: 0.1}\ntrainer: {epochs: 3}\nseed: 1\n")
    code, out, _ = plat("init", "train.py")
    assert code == 0 and "python train.py --cfg job" in out and "The script seems to log no metrics" in out
    base = read(here / "train.yaml").data["base"]
    assert base["script.command"] == (
        "python train.py optim.lr={optim.lr} trainer.epochs={trainer_.epochs} seed={seed} hydra.run.dir={plat.run_dir}"
    )
    assert (base["optim.lr"], base["trainer_.epochs"]) == (0.1, 3)
    assert planned(plat, "train.yaml") == 5
    assert {path.name for path in here.iterdir()} <= {"train.py", "config.yaml", "train.yaml", "home"}


def test_a_shell_script_that_knows_help(plat: Verb, here: Path) -> None:
    script("run.sh", SHELL)
    code, out, _ = plat("init", "./run.sh")
    assert code == 0 and "./run.sh --help" in out
    assert read(here / "run.yaml").data["base"]["script.command"] == "./run.sh --lr {lr}"
    assert planned(plat, "run.yaml") == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [("run.sh", "touch trained\n"), ("train.py", "open('trained', 'w')\n"), ("hello", "\x7fELF\udcff")],
)
def test_a_script_that_may_not_know_help_is_not_executed(plat: Verb, here: Path, name: str, text: str) -> None:
    script(name, "")
    Path(name).write_text(text, errors="surrogateescape")
    code, out, _ = plat("init", name)
    assert code == 0 and "executed nothing" in out and "passes no flags" in out
    file = f"{Path(name).stem}.yaml"
    assert planned(plat, file) == 1 and "{lr}" in (here / file).read_text()
    assert not Path("trained").exists()


def test_a_script_of_r_is_run_by_rscript(plat: Verb, here: Path) -> None:
    script("train.R", "cat(commandArgs(TRUE))").chmod(0o644)
    code, _, err = plat("init", "train.R", "{seed}")
    assert code == 0, err
    assert read(here / "train.yaml").data["base"]["script.command"] == "Rscript train.R {seed}"


def test_a_shell_script_whose_help_fails_gets_a_file_without_flags(plat: Verb) -> None:
    script("run.sh", "#!/bin/sh\n# --help\necho no such option\nexit 4\n")
    code, out, _ = plat("init", "run.sh")
    assert code == 0 and "exit code 4: no such option" in out and "passes no flags" in out


def test_plain_executes_nothing(plat: Verb) -> None:
    script("train.py", ARGPARSE)
    code, out, _ = plat("init", "train.py", "--plain")
    assert code == 0 and "executed nothing" in out and planned(plat, "train.yaml") == 1


def test_a_required_option_must_be_filled_in(plat: Verb) -> None:
    script("train.py", "import argparse\np = argparse.ArgumentParser()\np.add_argument('data')\np.parse_args()\n")
    code, out, _ = plat("init", "train.py")
    assert code == 0 and "The script requires a value for: data. Write it into train.yaml." in out
    code, _, err = plat("plan", "train.yaml")
    assert code == 2 and "data is still FILL_IN" in err
    Path("train.yaml").write_text(Path("train.yaml").read_text().replace("FILL_IN", "digits"))
    assert planned(plat, "train.yaml") == 1


@pytest.mark.parametrize(
    ("name", "text", "arguments", "says"),
    [
        ("train.py", "import argparse\nprint(1)\nraise SystemExit('no torch')", [], "exit code 1: no torch"),
        ("train.py", "import argparse, os\nos.abort()", [], "signal SIGABRT"),
        ("train.py", HYDRA, [], "exit code 1"),  # it has no config
        ("train.py", "# hydra.main\nprint('[just words')", [], "printed no YAML"),
        ("train.py", ARGPARSE, ["--out", "a:b.yaml"], "cannot name results"),
        ("train.py", ARGPARSE, ["--out", "file.txt"], "ends in .yaml"),
        ("train.py", ARGPARSE, ["--out", "nowhere/file.yaml"], "no such folder"),
        ("a,b.py", ARGPARSE, [], "cannot name results"),
        ("other.py", ARGPARSE, [], "there is no such file"),
        ("train.xyz", ARGPARSE, [], "not executable"),
        ("n.ipynb", "{}", [], "papermill --log-output n.ipynb {plat.run_dir}/out.ipynb"),
    ],
)
def test_refusals_write_nothing(plat: Verb, here: Path, name: str, text: str, arguments: list[str], says: str) -> None:
    script("train.py" if name == "other.py" else name, text).chmod(0o644)
    before = {*here.iterdir()}
    code, out, err = plat("init", name, *arguments)
    assert code == 2 and says in err and "fix:" in err and not out
    assert {*here.iterdir()} == before


def test_an_existing_file_is_kept(plat: Verb, here: Path) -> None:
    script("train.py", ARGPARSE)
    (here / "train.yaml").write_text("mine")
    code, _, err = plat("init", "train.py")
    assert code == 2 and "exists already" in err and "--out" in err
    assert (here / "train.yaml").read_text() == "mine"


def test_what_does_not_end_is_killed_with_its_children(here: Path) -> None:
    path = script("slow.sh", "#!/bin/sh\nsleep 2 && touch late &\nsleep 60\n")
    with pytest.raises(SpecError, match=r"within 0\.3 s"):
        asking.output_of([f"./{path}", "--help"], here, limit=0.3)
    time.sleep(2.2)
    assert not Path("late").exists()


def test_another_python_is_asked_and_written(plat: Verb, here: Path) -> None:
    Path("train.py").write_text("import only_there, argparse\nprint('{}')\n" + ARGPARSE)
    code, _, err = plat("init", "train.py")
    assert code == 2 and f"this was {sys.executable}: name the Python that has it with --python PATH" in " ".join(
        err.split()
    )
    Path("env/lib").mkdir(parents=True)
    Path("env/lib/only_there.py").write_text("")
    python = Path("env/python")
    python.write_text(f'#!/bin/sh\nPYTHONPATH={here}/env/lib exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    code, _, err = plat("init", "train.py", "--python", "env/python")
    assert code == 0, err
    assert read(here / "train.yaml").data["base"]["script.python"] == str(here / "env/python")
    assert planned(plat, "train.yaml") == 5
    code, _, err = plat("init", "train.py", "--out", "b.yaml", "--python", "env/pyton")
    assert code == 2 and "there is no Python env/pyton" in err


def test_the_words_after_the_script_stay_in_the_command(plat: Verb, here: Path) -> None:
    parser = """
import argparse
parser = argparse.ArgumentParser()
verbs = parser.add_subparsers(dest="verb", required=True)
fit = verbs.add_parser("fit")
fit.add_argument("data")
fit.add_argument("out")
fit.add_argument("-b", "--batch", type=int, default=8)
fit.add_argument("--lr", type=float, default=0.1)
fit.add_argument("--wide", action=argparse.BooleanOptionalAction, default=False)
print(parser.parse_args())
"""
    script("train.py", parser)
    given = ["fit", "my digits", "{plat.run_dir}/out", "-b", "4", "--no-wide"]
    code, out, err = plat("init", "python", "train.py", "--", *given)
    assert code == 0, err
    assert "python train.py fit 'my digits' 0/out -b 4 --no-wide --help" in out
    command = "python train.py fit 'my digits' {plat.run_dir}/out -b 4 --no-wide --lr {lr}"
    assert read(here / "train.yaml").data["base"]["script.command"] == command
    assert planned(plat, "train.yaml") == 1
    code, _, err = plat("init", "train.py", "fit", "--lr", "0.2")
    assert code == 2 and "options of the script stand after `--`" in err


def test_overrides_of_hydra_after_the_script(plat: Verb, here: Path) -> None:
    script("train.py", HYDRA)
    Path("config.yaml").write_text("optim: {lr: 0.1}\nepochs: 3\n")
    code, _, err = plat("init", "train.py", "epochs=2", "hydra.run.dir={plat.run_dir}/x", "+seed={seed}")
    assert code == 0, err
    data = read(here / "train.yaml").data
    command = "python train.py epochs=2 hydra.run.dir={plat.run_dir}/x +seed={seed} optim.lr={optim.lr}"
    assert data["base"]["script.command"] == command and data["matrix"] == {"seed": "range(5)"}
    assert planned(plat, "train.yaml") == 5


@pytest.mark.parametrize(
    ("help_text", "given", "left"),
    [
        ("usage: t.py [-h] data\n\npositional arguments:\n  data\n", ["digits"], []),
        ("usage: t.py fit [-h] data\n\npositional arguments:\n  data\n", ["fit"], ["data"]),
        ("Usage: t.py fit [OPTIONS] DATA\n\nOptions:\n  --lr FLOAT\n", ["fit", "--lr", "1"], ["data"]),
        ("Usage: t.py fit [OPTIONS] DATA\n\nOptions:\n  --lr FLOAT\n", ["fit", "x"], ["lr"]),
        ("Options:\n  -l, --lr FLOAT\n", ["-l", "1"], []),
    ],
)
def test_what_is_given_is_not_passed_again(help_text: str, given: list[str], left: list[str]) -> None:
    assert [flag.name for flag in not_given(flags_of_help(help_text), given, help_text)] == left


def test_an_interrupted_try_leaves_no_file(here: Path) -> None:
    (here / "slow.py").write_text("import argparse, time\nargparse.ArgumentParser().parse_args()\ntime.sleep(60)\n")
    words = [sys.executable, "-m", "plat", "init", "slow.py", "--try"]
    process = subprocess.Popen(words, cwd=here, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 60
    while not (here / "slow.yaml").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    assert not (here / "slow.yaml").exists()
