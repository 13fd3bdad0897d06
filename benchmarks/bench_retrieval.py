"""Time the retrieval server: queries a second over generated pages, asked by many clients at once.

    python benchmarks/bench_retrieval.py                 100,000 pages, 4,000 queries, 32 clients
    python benchmarks/bench_retrieval.py --pages 1000000

The index of vectors is a real one of FAISS (flat), the encoder a tiny one with random weights. The server and the
clients, which are plat's own, are two processes with one core each. Starting and building are not timed as queries.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from measuring import figure, options, use_one_thread
from tiny_encoder import tiny_encoder

from plat_envs.retrieval.corpus import Corpus
from plat_envs.searchqa.questions import SearchQAConfig
from plat_envs.searchqa.retrieval import ServerSearch, ask

AIM = 200  # queries a second
RETRIEVAL = [sys.executable, "-m", "plat", "retrieval"]
VOCABULARY = 20_000  # pages whose words the tokenizer knows


@contextmanager
def server(files: list[str]) -> Iterator[str]:
    """Start a server on a free port, and return its address."""
    process = subprocess.Popen([*RETRIEVAL, "serve", *files, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().split()[0].partition("=")[2]
    finally:
        process.kill()
        process.communicate()


def measure(folder: Path, corpus: Corpus, encoder: str, queries: list[str], clients: int) -> None:
    """Build an index, ask all queries, and print the figures."""
    name = "bm25" if encoder == "bm25" else "FAISS"
    source = ["--corpus", str(corpus.path), "--encoder", encoder]
    index = str(folder / f"{name}.index")
    begun = time.perf_counter()
    subprocess.run([*RETRIEVAL, "build", *source, "--out", index], check=True, stdout=subprocess.DEVNULL)
    figure(f"retrieval: build {name} of {len(corpus):,} pages", time.perf_counter() - begun, "s", "")
    with server([*source, "--index", index]) as address, ThreadPoolExecutor(clients) as threads:
        search = ServerSearch(SearchQAConfig(server=address))
        list(threads.map(lambda query: search(query, 5), queries[:clients]))  # the first queries load libraries
        begun = time.perf_counter()
        found = list(threads.map(lambda query: search(query, 5), queries))
        rate = len(queries) / (time.perf_counter() - begun)
        assert all(found)
        print(ask(address, "GET", "/health", None, 10).body.decode())
    against = f"at least {AIM}, {clients} clients"
    figure(
        f"retrieval: {name} over {len(corpus):,} pages", rate, "queries/s", against, ratio=rate / AIM, ok=rate >= AIM
    )


def main() -> None:
    use_one_thread()  # so that one core is left to the clients
    arguments = options(__doc__, pages=100_000, queries=4000, clients=32).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "pages.jsonl"
        subprocess.run([*RETRIEVAL, "pages", "--out", file, "--count", str(arguments.pages)], check=True)
        corpus = Corpus(file)
        rng = random.Random(0)
        pages = [corpus[rng.randrange(len(corpus))]["contents"] for _ in range(arguments.queries)]
        queries = [" ".join(rng.sample(re.findall(r"\w{5,}", page), 6)) for page in pages]
        for encoder in ("bm25", str(tiny_encoder(folder / "encoder", islice(corpus.texts(), VOCABULARY)))):
            measure(folder, corpus, encoder, queries, arguments.clients)


if __name__ == "__main__":
    main()
