"""The command that shows an environment, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from plat_envs.show import main


@pytest.mark.parametrize(
    "task", ["sokoban", "frozenlake", "countdown", "metamathqa", "searchqa", "webshop", "deepcoder"]
)
@pytest.mark.parametrize("rendering", ["compact", "chat"])
def test_shows_a_solved_episode(capsys, task, rendering):
    assert main([task, "--seed", "3", "--split", "validation", "--rendering", rendering, "format_penalty=-0.2"]) == 0
    out = capsys.readouterr().out
    assert "several_facts:" in out and "template:" in out and '"success": true' in out


def test_bad_input_is_one_line(capsys):
    for arguments in (["sokobann"], ["sokoban", "wals=1"], ["sokoban", "walls"], ["countdown", "numbers=twice"]):
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("error: ") and captured.err.count("\n") == 1 and not captured.out


def test_importing_environments_imports_nothing_heavy():
    code = (
        "import sys, plat_envs.games.sokoban, plat_envs.games.frozenlake, plat_envs.questions.countdown;"
        "import plat_envs.questions.metamathqa;"
        "import plat_envs.shop.spec, plat_envs.searchqa.spec, plat_envs.stand_in.scripted;"
        "import plat_envs.programs.spec, plat_envs.programs.chat, plat_envs.programs.generated;"
        "heavy = {'torch', 'plat', 'gymnasium', 'datasets', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
