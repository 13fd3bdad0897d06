"""A real server process is killed while many environments search, and started again: each query gets its answer."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from plat_envs.retrieval.corpus import Corpus
from plat_envs.retrieval.indexes import open_finder
from plat_envs.searchqa.config import SearchQAConfig
from plat_envs.searchqa.retrieval import ServerSearch

QUERIES = 600


@pytest.fixture
def start(words_source):
    """Start `plat retrieval serve` at a port; 0: a free one. (process, port, hash) once it answers."""
    processes = []

    def run(port: int):
        files = ["--corpus", words_source.corpus, "--index", words_source.index, "--encoder", "bm25"]
        command = [sys.executable, "-m", "plat", "retrieval", "serve", *map(str, files), "--port", str(port)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        line = process.stdout.readline()
        found = re.fullmatch(r"task\.env\.server=http://127\.0\.0\.1:(\d+) task\.env\.index=(\w{64})\n", line)
        return process, int(found[1]), found[2]

    yield run
    for process in processes:
        process.kill()
        process.communicate()


def test_every_query_is_answered_although_the_server_is_killed(words_source, start):
    corpus = Corpus(words_source.corpus)
    titles = [corpus[n % len(corpus)]["contents"].partition("\n")[0] for n in range(QUERIES)]
    process, port, index = start(0)
    config = SearchQAConfig(server=f"http://127.0.0.1:{port}", index=index, patience=60.0)
    searches = [ServerSearch(config) for _ in range(24)]
    rankings = open_finder(words_source, corpus).find(titles, 5)
    expected = [[(corpus[number]["contents"], score) for number, score in pages] for pages in rankings]
    answered, killed_at = [0], []

    def ask(number: int):
        found = searches[number % 24](titles[number], 5)
        answered[0] += 1
        return found

    def kill():
        while answered[0] < 0.3 * QUERIES:
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.wait()
        killed_at.append(answered[0])
        assert start(port)[2] == index, "the same files have the same hash"

    with ThreadPoolExecutor(25) as threads:
        killing = threads.submit(kill)
        found = list(threads.map(ask, range(QUERIES)))
        killing.result()
    assert 0 < killed_at[0] < QUERIES
    assert found == expected


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 130)])
def test_a_stop_ends_the_server_at_once(start, number, code):
    process, port, index = start(0)
    ServerSearch(SearchQAConfig(server=f"http://127.0.0.1:{port}", index=index))("bridges", 3)
    process.send_signal(number)
    assert process.wait(5) == code
    assert start(port)[1] == port, "the port is free again"
