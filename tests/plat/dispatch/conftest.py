"""A home, for tests of the dispatchers."""

import pytest

from plat.store.home import Home


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()
