"""A server that does not take artifacts is refused before anything runs, with the option that helps."""

from __future__ import annotations

import pytest

from plat.errors import StoreError
from plat.store.mlflow import server_check
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.server_check import check_artifacts

URI = "http://localhost:5000"


@pytest.fixture
def as_server(home, monkeypatch):
    """The store of the home in place of a server: a function that gives its client an artifact folder."""
    client = mlflow_client(home.store_uri())

    def use(place: str, **replaced):
        if client.get_experiment_by_name(server_check.PLACE) is None:
            client.create_experiment(server_check.PLACE, place)
        for name, function in replaced.items():
            monkeypatch.setattr(client, name, function)
        monkeypatch.setattr(server_check, "mlflow_client", lambda uri: client)
        return client

    return use


def test_a_server_that_gives_back_what_it_got_is_asked_once(home, as_server, tmp_path):
    client = as_server(str(tmp_path / "files"))
    check_artifacts(home, URI)
    (run,) = client.search_runs([client.get_experiment_by_name(server_check.PLACE).experiment_id], run_view_type=3)
    assert run.info.lifecycle_stage == "deleted"
    as_server("", create_run=None)
    check_artifacts(home, URI)


def refuse(*_, **__):
    raise PermissionError("denied")


@pytest.mark.parametrize("step", ["log_text", "download_artifacts"])
def test_one_that_does_not_is_refused_with_the_option_that_helps(home, as_server, tmp_path, step):
    client = as_server(str(tmp_path / "files"), **{step: refuse})
    with pytest.raises(StoreError, match="cannot write the artifacts") as error:
        check_artifacts(home, URI)
    assert "--serve-artifacts" in error.value.fix and "--artifacts-destination" in error.value.fix
    assert client.search_runs([client.get_experiment_by_name(server_check.PLACE).experiment_id]) == []


def test_a_folder_of_another_machine_is_refused(home, as_server, tmp_path):
    as_server(str(tmp_path / "files"))
    with pytest.raises(StoreError, match="a folder of its own machine"):
        check_artifacts(home, "http://mlflow.example.org")


def test_a_file_needs_no_check(home, monkeypatch):
    monkeypatch.setattr(server_check, "mlflow_client", None)
    check_artifacts(home, home.store_uri())
    check_artifacts(home, "postgresql://host/db")
