"""One set of tests for every dispatcher. A `place` says where runs go and what `sweep` must be told for that."""

from __future__ import annotations

import contextlib
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from clusters import PYTHONPATH, QUICK, FakeSlurm
from mlflow_server import MlflowServer
from ray_cluster import ENVIRONMENT, RayCluster, on_ray

from plat.store.home import Home


@dataclass
class Place:
    """Where the runs of a test go. `cluster` is the running SLURM or Ray behind it, None for local."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)
    cluster: Any = None


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").create()


@pytest.fixture
def tasks_find_the_toy(monkeypatch: pytest.MonkeyPatch) -> None:
    """The toy trainer is importable in jobs, too: they inherit this environment."""
    monkeypatch.setenv("PYTHONPATH", PYTHONPATH)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tasks_find_the_toy: None) -> Iterator[FakeSlurm]:
    """A fake SLURM with two slots."""
    slurm = FakeSlurm(tmp_path / "slurm")
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    yield slurm
    slurm.stop()


@pytest.fixture(params=["local", "fake", *(pytest.param(name, marks=pytest.mark.cluster) for name in ("real", "ray"))])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "local":
        return Place("local", {"jobs": 2})
    cluster = request.getfixturevalue(request.param)
    if request.param == "ray":
        return Place("ray", {"on": "ray", "cluster": on_ray(cluster)}, cluster)
    cluster_options = (*QUICK, "cluster.runs_per_task=2")
    return Place(request.param, {"on": "slurm", "cluster": cluster_options}, cluster)


@contextlib.contextmanager
def running_cluster(**options: Any) -> Iterator[Any]:
    """A real SLURM on this machine, ended with the block. Needs root."""
    from slurm.one_machine.cluster import Cluster

    folder = Path(tempfile.mkdtemp(prefix="plat-one-machine-"))  # munged and MariaDB are other users: not in tmp_path
    cluster = Cluster(folder, **options)
    try:
        cluster.up()
        yield cluster
    finally:
        cluster.down()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def one_machine() -> Iterator[Any]:
    """A real SLURM of four nodes, with accounting by slurmdbd."""
    with running_cluster(nodes=4, accounting=True) as cluster:
        yield cluster


@pytest.fixture
def real(one_machine: Any, monkeypatch: pytest.MonkeyPatch, tasks_find_the_toy: None) -> Any:
    """The commands talk to the real SLURM."""
    for name, value in one_machine.environment.items():
        monkeypatch.setenv(name, value)
    return one_machine


@pytest.fixture
def without_accounting(monkeypatch: pytest.MonkeyPatch, tasks_find_the_toy: None) -> Iterator[Any]:
    """A real SLURM of two nodes where `sacct` does not work, as on many small clusters."""
    with running_cluster(nodes=2, accounting=False) as cluster:
        for name, value in cluster.environment.items():
            monkeypatch.setenv(name, value)
        yield cluster


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[RayCluster]:
    """A real Ray of two nodes with two CPUs each."""
    cluster = RayCluster()
    yield cluster
    cluster.down()


@pytest.fixture
def ray(two_nodes: RayCluster, monkeypatch: pytest.MonkeyPatch, tasks_find_the_toy: None) -> RayCluster:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    return two_nodes


@pytest.fixture
def server() -> Iterator[MlflowServer]:
    """A running `mlflow server` over a real PostgreSQL."""
    from slurm.one_machine.postgresql import PostgreSQL

    folder = Path(tempfile.mkdtemp(prefix="plat-team-"))  # the database belongs to another user: not in tmp_path
    folder.chmod(0o755)
    (folder / "postgresql").mkdir()
    database = PostgreSQL(folder / "postgresql")
    server = MlflowServer(folder, database.uri, workers=2)
    try:
        database.up()
        server.start()
        yield server
    finally:
        server.end(signal.SIGKILL)
        database.down()
        shutil.rmtree(folder, ignore_errors=True)
