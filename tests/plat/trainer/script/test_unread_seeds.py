"""`plat plan` says where seeds make no difference."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

Verb = Callable[..., tuple[int, str, str]]
NOTE = "mention no seed"


@pytest.mark.parametrize(
    ("command", "script", "seeds", "is_said"),
    [
        ("python train.py", "import helper", "[0, 1]", True),
        ("python train.py", "import helper", "[0]", False),
        ("python train.py {seed}", "import helper", "[0, 1]", False),
        ("python train.py", "import os; os.environ['PLAT_SEED']", "[0, 1]", False),
        ("python train.py", "import helper, reads", "[0, 1]", False),
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
