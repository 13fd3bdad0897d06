"""Rules of words, held by reading the source: the platform names no paper, and no SQL touches the tables of MLflow."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PLATFORM = ROOT / "platform" / "plat"
SOURCES = (PLATFORM, *(ROOT / folder for folder in ("platform/plat_rl", "envs", "analysis")))

# Words of the paper. `success`, `val/`, `seed`, `peak` and the like belong to anybody's metrics and configs.
PAPER = re.compile(
    r"plat_(rl|ragen2|envs)|\bembedded\b|retrieval|pre-?check|sokoban|frozen.?lake|bandit|countdown|search_?qa|webshop"
    r"|deepcoder|metamath|top_p|\b(gr|p)po\b|dapo|rollout|\bmi/|mutual.information|heldout|trajector|ragen|qwen"
    r"|stand-in|reasoning(?!.gym)|verl\.",
    re.IGNORECASE,
)
NAMED = {"platform/plat/moved_modules.py"}  # names the modules of plat 0.4


def test_the_platform_has_no_word_of_its_paper():
    """No import, config key, metric, verb or option, and no example in a docstring or comment either."""
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(PLATFORM.rglob("*.py"))
        if str(path.relative_to(ROOT)) not in NAMED
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if PAPER.search(line)
    ]
    assert not wrong, "\n".join(wrong)


MLFLOW_TABLES = "runs|tags|params|metrics|latest_metrics|experiments|experiment_tags|alembic_version"
SQL = re.compile(
    rf"(?:\b(?:FROM|INTO|UPDATE|JOIN|TABLE)|\b(?:select|delete|insert)\b.*\b(?:from|into))\s+\W?(?:{MLFLOW_TABLES})\b"
)


def test_no_statement_of_ours_touches_the_tables_of_mlflow():
    """MLflow's client alone reads and writes a store; its tables may change with every release.

    The readers of scripts are left out: they follow the files in which a script logs, whatever wrote them."""
    assert (
        SQL.search("SELECT value FROM tags")
        and SQL.search("UPDATE runs SET x = 1")
        and SQL.search("select 1 from runs")
    )
    wrong = [
        f"{path}:{number}: {line.strip()}"
        for root in SOURCES
        for path in sorted(root.rglob("*"))
        if path.suffix in (".py", ".sql") and path.parent != PLATFORM / "trainer" / "script" / "readers"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if SQL.search(line)
    ]
    assert not wrong, "\n".join(wrong)
