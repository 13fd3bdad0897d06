"""The bundles of the repository, read once: most of a check is making the reports."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.documents.bundles import Bundles


@pytest.fixture(scope="session")
def bundles() -> Bundles:
    return Bundles(Path(__file__).parents[3])
