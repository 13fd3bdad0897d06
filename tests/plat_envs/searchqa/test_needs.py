"""What runs of searchqa need, and whether it is there."""

from __future__ import annotations

import sys
import time

import pytest

from plat_envs.api import configure, find_environment
from plat_envs.searchqa.retrieval import Reply


def needs(**options):
    spec = find_environment("searchqa")
    return list(spec.needs(configure(spec, options)))


def test_generated_pages_need_nothing():
    assert needs() == []


def test_a_server_that_answers_is_here(words_server):
    right = words_server.pages.hashes.combined
    (need,) = needs(server=words_server.url)
    assert need.what.startswith(f"a retrieval server at {words_server.url}; task.env.index={right} would")
    assert (need.absent, need.fix) == ("", "")
    (need,) = needs(server=words_server.url, index=right)
    assert (need.what, need.absent, need.fix) == (f"a retrieval server at {words_server.url}", "", "")
    wrong = needs(server=words_server.url, index="f" * 64)[0]
    assert wrong.absent == f"it has the index {right}, not {'f' * 64}" and wrong.fix.startswith("plat retrieval serve")


def test_a_server_that_is_away_and_files_that_are_missing(tmp_path):
    (tmp_path / "train.jsonl").write_text("{}")
    paths = {"path": str(tmp_path / "train.jsonl"), "validation_path": str(tmp_path / "gone.jsonl")}
    train, validation, server = needs(data="file", server="http://127.0.0.1:1", **paths)
    assert train.absent == "" and validation.absent == "there is no such file" and "gone.jsonl" in validation.what
    assert "64.5 GB of memory" in server.what and "refused" in server.absent
    assert server.fix == "plat retrieval serve --corpus CORPUS --index INDEX --encoder DIR --port 1"
    assert needs(server="http://127.0.0.1:1")[0].fix.endswith("--encoder bm25 --port 1")
    assert needs(server="http://elsewhere.invalid:1")[0].fix.endswith("--port 1 --host elsewhere.invalid")


@pytest.mark.parametrize(
    ("body", "absent"),
    [
        (b'{"status": "healthy"}', ""),
        (b'{"hash": ""}', ""),
        (b'{"hash": [3]}', ""),
        (b"[]", "it answers /health with something else than a JSON object"),
        (b"[" * 200_000, "it answers /health with something else than a JSON object"),
    ],
)
def test_a_server_that_names_no_index(monkeypatch, body, absent):
    """No index is advised, and none is the one that is asked for."""
    monkeypatch.setattr("plat_envs.searchqa.spec.ask", lambda *arguments: Reply(200, body))
    (need,) = needs(server="http://127.0.0.1:1")
    assert (need.what, need.absent) == ("a retrieval server at http://127.0.0.1:1", absent)
    (need,) = needs(server="http://127.0.0.1:1", index="f" * 64)
    assert need.absent == (absent or "it names no index") and need.fix.startswith("plat retrieval serve")


def test_a_server_that_does_not_speak_is_not_waited_for():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as silent:
        begun = time.monotonic()
        (need,) = needs(server=f"http://127.0.0.1:{silent.getsockname()[1]}")
    assert "timed out" in need.absent and time.monotonic() - begun < 5


@pytest.mark.parametrize("folder", ["hub/datasets--hotpotqa--hotpot_qa", "datasets/hotpotqa___hotpot_qa", None])
def test_a_dataset_of_the_hub(monkeypatch, tmp_path, folder):
    for name in ("HF_HUB_CACHE", "HF_DATASETS_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path))
    if folder:
        (tmp_path / folder).mkdir(parents=True)
    need = needs(data="hub", server="http://127.0.0.1:1")[0]
    assert need.what == "the dataset hotpotqa/hotpot_qa of the hub" and bool(need.absent) == (folder is None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    assert needs(data="hub", server="http://127.0.0.1:1")[0].fix == "pip install 'plat[hub]'"
