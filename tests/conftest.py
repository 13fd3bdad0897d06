"""Fixtures for suites that need whole plug-in packages."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from plat_analysis.figures.style import STYLE

# The same examples at every run of continuous integration; new ones at every run by hand. No law is judged by its time:
# its first example may import scipy on a busy machine.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("by hand", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "by hand")


# A shell starts background jobs, and `nohup` its command, with SIGINT ignored, and processes inherit that: in a test
# Ctrl-C would then do nothing.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The toy trainer of tests/toy is named by its module, not published by an installed package.
os.environ.setdefault("PLAT_ALLOW_IMPORT", "1")


# The fonts of a PDF take four times as long as the rest of a figure's files; Type 3 is quick to embed. One test of
# figures looks at the fonts that journals ask for.
STYLE["pdf.fonttype"] = 3

OUTSIDE = Path(__file__).parent / "outside_paper"


SLOW = frozenset((Path(__file__).parent / "slow.txt").read_text(encoding="utf-8").split())


@pytest.fixture(autouse=True)
def without_explorer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports have no `explore.html`, which takes seconds, except in the tests of it."""
    if "explore" not in request.path.name:
        monkeypatch.setattr("plat.app.report_making.explorer_beside", lambda *_: {})


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of tests/slow.txt (see `tools.slow_tests`)."""
    for item in items:
        if item.nodeid.partition("[")[0] in SLOW:
            item.add_marker("slow")


@pytest.fixture(scope="session")
def toy_paper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The toy second paper, installed by pip into a folder of its own; put it on PYTHONPATH to publish its plugins."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "-qq", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*command, "--target", str(folder), str(OUTSIDE)], check=True, timeout=120)
    return folder
