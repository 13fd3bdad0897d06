"""What a shell is told, by the functions and by the program, in a folder with files and a home with runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from plat.cli.completion import shells
from plat.cli.completion.answer import split
from plat.cli.completion.candidates import candidates
from plat.spec.composition.schema import schema_of
from plat.trainer.finding import find_trainer

FILE = """
title: x
base: {trainer: script, script.command: 'python train.py --lr {lr} {mine.size}', mine.size: 3}
matrix: {lr: [0.1, 0.2]}
"""
NAMES = {"ab12cd34ef567890": "ppo-s0-ab12cd34", "ab99cd34ef567890": "grpo-s0-ab99cd34"}
BIN = Path(sys.executable).parent
HEAVY = {"typer", "omegaconf", "hydra", "yaml", "importlib.metadata", "sqlite3"}


@pytest.fixture
def here(tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text(FILE)
    (tmp_path / "a file.yml").write_text(FILE)
    (tmp_path / "train.py").write_text("")
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "deep.yaml").write_text(FILE)
    for run_id, name in NAMES.items():
        folder = home / "runs" / run_id[:2] / run_id
        folder.mkdir(parents=True)
        (folder / "meta.json").write_text(json.dumps({"name": name}))
    return tmp_path


def found(line: str) -> list[str]:
    words, unfinished, _ = split(line)
    return [*candidates(words, unfinished)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("plat sw", ["sweep"]),
        ("plat --", ["--version", "--help"]),
        ("plat nonsense ", []),
        ("plat base ", ["list", "build", "verify"]),
        ("plat base build --o", ["--out"]),
        ("plat base list --home x --j", ["--json"]),
        ("plat sweep mi", ["mine.yaml"]),
        ("plat sweep more/", ["more/deep.yaml"]),
        ("plat sweep ./m", ["./mine.yaml", "./more/"]),
        ("plat sweep nowhere/", []),
        ("plat sweep mine.yaml --dr", ["--dry-run"]),
        ("plat sweep mine.yaml --jobs ", []),
        ("plat sweep mine.yaml --jobs 2 --dr", ["--dry-run"]),
        ("plat sweep mine.yaml mine.s", ["mine.size="]),
        ("plat sweep mine.yaml matrix.l", ["matrix.lr="]),
        ("plat sweep mine.yaml lr=", []),
        ("plat run trainer=script script.ste", ["script.step="]),
        ("plat run filter.ru", ["filter.rule="]),
        ("plat run matrix.filter.ru", ["matrix.filter.rule="]),
        ("plat options filter.ru", ["filter.rule"]),
        ("plat logs p", ["ppo-s0-ab12cd34"]),
        ("plat logs ", ["ppo-s0-ab12cd34", "grpo-s0-ab99cd34"]),
        ("plat why ab", ["ab12cd34", "ab99cd34"]),
        ("plat why --home elsewhere ", []),
        ("plat why --home=elsewhere ", []),
        ("plat diff mine.yaml gr", ["grpo-s0-ab99cd34"]),
        ("plat diff --metric los", []),
        ("plat init tr", ["train.py"]),
        ("plat import mo", ["more/"]),
        ("plat export mine.yaml --out=mo", ["--out=more/"]),
        ("plat completion ", ["bash", "zsh", "fish"]),
        ("plat sweep 'matrix.filter.ru", ["matrix.filter.rule="]),
    ],
)
def test_candidates(here: Path, line: str, expected: list[str]) -> None:
    assert found(line) == expected


def test_every_key_of_every_trainer_is_known(here: Path) -> None:
    for trainer in ("embedded", "verl", "script"):
        words = ["run", f"trainer={trainer}"]
        for key in schema_of(find_trainer(trainer).config_type).leaves:
            assert f"{key}=" in candidates(words, key[:3]), key
    assert {"filter=", "matrix.filter="} <= {*candidates(["run"], "filter"), *candidates(["run"], "matrix.filter")}


@pytest.mark.parametrize(
    ("line", "split_line"),
    [
        ("plat ", ([], "", False)),
        ("plat sweep  a\\ b", (["sweep"], "a b", False)),
        ("plat sweep 'a b", (["sweep"], "a b", True)),
        ('plat sweep x "a ', (["sweep", "x"], "a ", True)),
    ],
)
def test_lines(line: str, split_line: tuple[list[str], str, bool]) -> None:
    assert split(line) == split_line


def test_the_forms_of_the_shells() -> None:
    names = {"a:b c=": "says: this", "bad\n": "", "plain": ""}
    assert shells.answers("fish", "a", False, names) == ["a:b c=\tsays: this", "plain"]
    assert shells.answers("zsh", "a", False, names) == ["open:a\\:b c=:says: this", "closed:plain"]
    assert shells.answers("bash", "a", False, names) == ["a:b\\ c=", "plain"]
    assert shells.answers("bash", "a:", False, {"a:b": ""}) == ["b"]
    assert shells.answers("bash", "a:", True, {"a:b": ""}) == ["a:b"]


@pytest.mark.parametrize("arguments", [[], ["bash"], ["bash", "plat \\"], ["nonsense", "plat 'x"], ["bash", ""]])
def test_a_mistake_prints_nothing(here: Path, arguments: list[str]) -> None:
    done = subprocess.run([BIN / "plat", shells.ASK, *arguments], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "") and "Traceback" not in done.stdout


@pytest.mark.parametrize("line", ["plat ", "plat sweep --", "plat sweep m", "plat logs "])
def test_an_answer_imports_nothing_slow(here: Path, line: str) -> None:
    code = f"import sys\nfrom plat import entry\nsys.argv = ['plat', {shells.ASK!r}, 'bash', {line!r}]\nentry.main()\n"
    code += "print(*sys.modules, file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    slow = HEAVY if line == "plat sweep --" or line == "plat " else HEAVY - {"yaml", "importlib.metadata", "sqlite3"}
    assert done.stdout and not slow & {*done.stderr.split()}


def environment() -> dict[str, str]:
    return {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}"}


@pytest.mark.parametrize(
    ("line", "replies"),
    [
        ("plat sw", "sweep"),
        ("plat sweep a", "a\\ file.yml"),
        ("plat sweep mine.yaml lr", "lr="),
        ("plat export --out=mo", "more/"),
        ("plat why ab", "ab12cd34 ab99cd34"),
    ],
)
def test_bash(here: Path, line: str, replies: str) -> None:
    *words, last = line.split(" ")
    asks = f"""
        eval "$(plat completion bash)"
        complete -p plat >&2
        compopt() {{ :; }}  # works only while a person completes
        COMP_LINE={line!r} COMP_POINT={len(line)} COMP_WORDS=({" ".join(words)} {last!r}) COMP_CWORD={len(words)}
        _plat
        echo "${{COMPREPLY[*]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", asks], capture_output=True, text=True, env=environment())
    assert done.stdout == f"{replies}\n" and done.stderr == "complete -F _plat plat\n"


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish(here: Path) -> None:
    asks = "plat completion fish | source; complete -C 'plat sweep mi'; complete -C 'plat sw'"
    done = subprocess.run(["fish", "--no-config", "-c", asks], capture_output=True, text=True, env=environment())
    assert done.stdout.splitlines() == ["mine.yaml", "sweep\tRun what is missing and print the report."], done.stderr


@pytest.mark.skipif(not shutil.which("zsh"), reason="zsh is not installed")
def test_zsh(here: Path) -> None:
    asks = """
        eval "$(plat completion zsh)"
        _describe() { print -r -- "$2: ${(P@)2} $3 $4" }
        words=(plat sweep mine.yaml lr) CURRENT=4 PREFIX=lr
        _plat
        words=(plat sw) CURRENT=2 PREFIX=sw
        _plat
    """
    done = subprocess.run(["zsh", "-f", "-c", asks], capture_output=True, text=True, env=environment())
    says = "closed: sweep:Run what is missing and print the report."
    assert [line.strip() for line in done.stdout.splitlines()] == ["open: lr= -S", says], done.stderr
