"""What the tests of the MLflow store share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from plat.store.home import Home
from plat.store.mlflow.mlflow_client import mlflow_client


@pytest.fixture
def runs_of() -> Callable[..., list[Any]]:
    """`runs_of(home, query=...)`: MLflow's runs in the store of a home; without a query those of plat's runs."""

    def search(home: Home, query: str = "tags.`plat.kind` = 'run'") -> list[Any]:
        client = mlflow_client(home.store_uri())
        return list(client.search_runs([item.experiment_id for item in client.search_experiments()], query))

    return search
