"""Where no scheduler or no store answers, nothing is left behind: the home is made after they have."""

from __future__ import annotations

import os
import socket

import pytest
from search_files import TOY_SEARCH

SWEEP = "title: A test\nbase: {trainer: 'plat_toy:Toy'}\nmatrix:\n  seed: [0]\n"


@pytest.fixture
def commands(spec):
    """Every command that makes a home, by where it may have its runs done."""
    files = spec(SWEEP), spec(TOY_SEARCH + "trials: 1\n", "search.yaml")
    with_file = [["sweep", files[0]], ["tune", files[1]]]
    return {"anywhere": with_file, "here": [*with_file, ["run", "trainer=plat_toy:Toy"]]}


@pytest.fixture
def closed_port():
    """A port of this machine on which nothing listens."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def test_without_slurm(plat, home, commands, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    for command in commands["anywhere"]:
        code, _, err = plat(*command, "--on", "slurm")
        assert code == 2 and "there is no scontrol here" in err and not home.exists(), command


@pytest.mark.parametrize("address", ["port", "auto"])
def test_without_a_ray_cluster(plat, home, commands, closed_port, address, monkeypatch, tmp_path):
    monkeypatch.setenv("RAY_ADDRESS", address if address == "auto" else f"127.0.0.1:{closed_port}")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # where Ray notes the address of the newest cluster of a machine
    for command in commands["anywhere"][: 1 if address == "auto" else None]:
        code, _, err = plat(*command, "--on", "ray")
        assert code == 2 and "no Ray cluster answers at" in err and not home.exists(), command


@pytest.mark.parametrize("kind", ["http", "postgresql"])
def test_without_a_store(plat, home, commands, closed_port, kind, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"{kind}://127.0.0.1:{closed_port}/x")
    for command in commands["here"]:
        code, _, err = plat(*command)
        assert code == 2 and "cannot be reached" in err and not home.exists(), command


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_store_in_a_folder_of_somebody_else(plat, home, commands, tmp_path):
    (tmp_path / "closed").mkdir(mode=0o555)
    for command in commands["here"]:
        code, _, err = plat(*command, "--store", f"sqlite:///{tmp_path}/closed/new/mlflow.db")
        assert code == 2 and "no store can be made there" in err and not home.exists(), command


def test_a_store_in_a_file_that_is_no_folder(plat, home, commands, tmp_path):
    (tmp_path / "file").write_text("")
    for command in commands["here"]:
        code, _, err = plat(*command, "--store", f"sqlite:///{tmp_path}/file/mlflow.db")
        assert code == 2 and "no store can be made there" in err and not home.exists(), command


def test_a_bundle_is_not_brought_into_a_home_whose_store_does_not_answer(plat, closed_port, spec, tmp_path):
    path = spec(SWEEP)
    assert plat("sweep", path)[0] == 0 and plat("export", path, "--out", tmp_path / "bundle")[0] == 0
    there, store = tmp_path / "there", f"postgresql://127.0.0.1:{closed_port}/x"
    code, _, err = plat("import", tmp_path / "bundle", "--home", there, "--store", store)
    assert code == 2 and "cannot be reached" in err and not there.exists()
