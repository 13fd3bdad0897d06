"""Whole sweeps through the command line, and what their stores hold."""

from __future__ import annotations

from pathlib import Path

import pytest
from store_dump import dump

from plat.cli import main
from plat.store.home import Home


def results(root: Path):
    """Every run of a store; not the page of its report, which names the command and the date."""
    content = dump(Home(root).store_uri())
    return {
        experiment: {name: run for name, run in runs.items() if not name.startswith("file ")}
        for experiment, runs in content.items()
    }


def plat(*arguments: str) -> int:
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    return int(left.value.code or 0)
