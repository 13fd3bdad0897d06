"""No password or token of a store's URI is ever shown."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from plat.cli import main
from plat.errors import StoreError
from plat.store.home import Home
from plat.store.mlflow.uri import mask_passwords, shown_uri


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("postgresql://me:s3cret@host:5432/db", "postgresql://me:***@host:5432/db"),
        ("postgresql+psycopg2://me:p@s:s3cret@host/db", "postgresql+psycopg2://me:***@host/db"),
        ("postgresql://me@host/db?password=s3cret&sslmode=on", "postgresql://me@host/db?password=***&sslmode=on"),
        ("https://s3crettoken@host/path", "https://***@host/path"),
        ("https://me:s3cret@host", "https://me:***@host"),
        ("https://host/?access_token=s3cret#x", "https://host/?access_token=***#x"),
        ("http://127.0.0.1:5000", "http://127.0.0.1:5000"),
        ("postgresql://me:s3/cret@host/db", "postgresql://me:***@host/db"),
        ("postgresql://me:s3#cr?et@host:1/db", "postgresql://me:***@host:1/db"),
        ("https://me:12/s3cret@host", "https://me:***@host"),
        ("sqlite:////tmp/a:b@c/mlflow.db", "sqlite:////tmp/a:b@c/mlflow.db"),
    ],
)
def test_a_uri_is_shown_without_its_password(uri, shown):
    assert shown_uri(uri) == shown
    if not uri.startswith("sqlite"):
        assert mask_passwords(f"cannot reach {uri}, sorry") == f"cannot reach {shown}, sorry"


@pytest.mark.parametrize("password", ["s3/cret", "s3#cret", "s3?cret", "12/3", "12#3", "12?3", "[s3", "s3]"])
@pytest.mark.parametrize("scheme", ["postgresql", "mysql+pymysql", "https"])
def test_a_password_that_makes_an_address_unreadable_is_refused_without_it(password, scheme, tmp_path):
    uri = f"{scheme}://me:{password}@127.0.0.1:9/db"
    with pytest.raises(StoreError, match="cannot be read") as refused:
        Home(tmp_path).store_uri(uri)
    assert password not in str(refused.value) and refused.value.where == f"{scheme}://me:***@127.0.0.1:9/db"
    for written in (quote(password, safe=""), "plain"):
        good = f"{scheme}://me:{written}@127.0.0.1:9/db?sslmode=on"
        assert Home(tmp_path).store_uri(good) == good


SMALL = "title: A test\nbase: {scale: smoke}\nmatrix:\n  task: [frozenlake]\n  seed: [0]\n"
VERBS = ["sync", "doctor", "sweep", "report", "claims", "run", "retry", "ui"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # workers that still load modules
@pytest.mark.parametrize("scheme", ["http", "postgresql"])
@pytest.mark.parametrize("verb", VERBS)
def test_no_verb_shows_the_password_of_a_store(verb, scheme, tmp_path, monkeypatch, capfd):
    """Every verb that takes a store, on one that does not answer. The sweep says so before anything is trained."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr("os.execve", lambda *_: None)
    (tmp_path / "small.yaml").write_text(SMALL)
    (tmp_path / "home" / "runs").mkdir(parents=True)
    arguments = {"sweep": ["small.yaml"], "report": ["small.yaml"], "claims": ["small.yaml"]}
    arguments["run"] = ["scale=smoke", "task=frozenlake"]
    monkeypatch.chdir(tmp_path)
    uri = f"{scheme}://me:s3cret@127.0.0.1:9/store"
    with pytest.raises(SystemExit) as stop:
        main([verb, *arguments.get(verb, []), "--home", str(tmp_path / "home"), "--store", uri])
    out, err = capfd.readouterr()
    assert "s3cret" not in out + err and "Traceback" not in out + err
    if verb not in ("retry", "ui"):
        assert stop.value.code == 2 and "127.0.0.1:9" in out + err
    assert not list((tmp_path / "home" / "runs").iterdir())
