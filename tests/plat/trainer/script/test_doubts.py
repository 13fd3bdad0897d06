"""`plat plan` says where seeds make no difference, and where runs write the same file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Verb = Callable[..., tuple[int, str, str]]
NOTE = "passes no {seed}"


@pytest.mark.parametrize(
    ("command", "script", "seeds", "is_said"),
    [
        ("python train.py", "import helper", "[0, 1]", True),
        ("python train.py", "import helper", "[0]", False),
        ("python train.py {seed}", "import helper", "[0, 1]", False),
        ("python train.py", "import os; os.environ['PLAT_SEED']", "[0, 1]", False),
        ("python train.py", "import helper, reads", "[0, 1]", False),
        ("python train.py", "seed_offset = 0", "[0, 1]", True),
        ("python train.py", "import argparse; argparse.ArgumentParser().add_argument('--seed')", "[0, 1]", True),
        ("python train.py {plat.config}", "", "[0, 1]", False),
        ("true", "", "[0, 1]", False),
    ],
)
def test_seeds_that_nothing_reads_are_named(
    plat: Verb, project: Path, command: str, script: str, seeds: str, is_said: bool
) -> None:
    Path("train.py").write_text(script)
    Path("helper.py").write_text("x = 1")
    Path("reads.py").write_text("import os; x = os.environ['PLAT_SEED']")
    base = f"base: {{trainer: script, script.command: '{command}'}}"
    Path("mine.yaml").write_text(f"title: x\n{base}\nmatrix: {{seed: {seeds}}}\n")
    code, _, err = plat("plan", "mine.yaml")
    assert code == 0 and (NOTE in " ".join(err.split())) == is_said, err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--out results.csv", "all runs write --out results.csv"),
        ("--output_dir=out", "all runs write --output_dir out"),
        ("--save-path model.pt", "all runs write --save-path model.pt"),
        ("--out {plat.run_dir}/results.csv", ""),
        ("--out=out-{seed}.csv", ""),
        ("--save --save-every 5 --log_level info", ""),
    ],
)
def test_outputs_that_all_runs_share_are_named(plat: Verb, project: Path, words: str, said: str) -> None:
    Path("train.py").write_text("")
    base = f"base: {{trainer: script, script.command: 'python train.py {{seed}} {words}'}}"
    Path("mine.yaml").write_text(f"title: x\n{base}\nmatrix: {{seed: [0, 1]}}\n")
    code, _, err = plat("plan", "mine.yaml")
    assert code == 0 and (said in err if said else "all runs write" not in err), err


@pytest.mark.parametrize(
    ("more", "config", "is_said"),
    [
        ("", "seed: 0", True),
        (", script.own_folder: true", "seed: 0", False),
        ("", "hydra:\n  run:\n    dir: out/${seed}\nseed: 0", False),
        (" hydra.run.dir={plat.run_dir}", "seed: 0", False),
    ],
)
def test_hydra_apps_whose_runs_may_share_a_folder_are_named(
    plat: Verb, project: Path, more: str, config: str, is_said: bool
) -> None:
    Path("app.py").write_text("import hydra\n@hydra.main(config_path='conf', config_name='c')\ndef f(c): ...\n")
    Path("conf").mkdir()
    Path("conf/c.yaml").write_text(config)
    word, keys = (more, "") if more.startswith(" ") else ("", more)
    base = f"base: {{trainer: script, script.command: 'python app.py seed={{seed}}{word}'{keys}}}"
    Path("mine.yaml").write_text(f"title: x\n{base}\nmatrix: {{seed: [0, 1]}}\n")
    code, _, err = plat("plan", "mine.yaml")
    assert code == 0 and ("share Hydra's folder" in " ".join(err.split())) == is_said, err
