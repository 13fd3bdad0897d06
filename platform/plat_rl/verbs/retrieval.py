"""`plat retrieval serve|build|pages`: the search engine of the task searchqa."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typing_extensions import TypedDict

from plat.cli.common import VerbGroup, verb
from plat.cli.result import Result
from plat.cli.screen.output import tell
from plat.units import counted
from plat_rl.verbs import bad_input

CorpusOption = Annotated[Path, typer.Option("--corpus", metavar="FILE", help="Pages: a file of JSON lines.")]
EncoderOption = Annotated[
    str, typer.Option("--encoder", metavar="DIR|bm25", help="Folder of an E5 model, or bm25 for an index of words.")
]
DeviceOption = Annotated[str, typer.Option("--device", metavar="NAME", help="Where the encoder runs: cpu or cuda.")]


class ServerData(TypedDict):
    """plat retrieval serve"""

    server: str
    """Its address: task.env.server"""
    index: str
    """The hash of what it searches: task.env.index"""


class CorpusData(TypedDict):
    """plat retrieval build and plat retrieval pages"""

    file: str
    pages: int


@verb(ServerData)
def serve(
    corpus: CorpusOption,
    index: Annotated[Path, typer.Option("--index", metavar="FILE", help="Index of the corpus.")],
    encoder: EncoderOption,
    host: Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen at.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port to listen at; 0: a free one.")] = 8000,
    device: DeviceOption = "cpu",
) -> Result:
    """Start the retrieval server. It runs until Ctrl-C.

    It has no password: with --host, everybody who reaches the port can search.
    """
    from plat_envs.retrieval.corpus import Source
    from plat_envs.retrieval.server import Pages, Server

    with bad_input():
        pages = Pages(Source(corpus, index, encoder, device))
        server = Server(pages, host, port)
    tell(f"searching {counted(len(pages.corpus), 'page')} (Ctrl-C ends it)")
    text = f"task.env.server={server.url} task.env.index={pages.hashes.combined}"

    def go_on() -> int:
        server.serve_forever()
        return 0

    return Result({"server": server.url, "index": pages.hashes.combined}, text, then=go_on)


@verb(CorpusData)
def build(
    corpus: CorpusOption,
    encoder: EncoderOption,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File of the index.")],
    kind: Annotated[
        str, typer.Option("--kind", metavar="NAME", help="With an encoder: flat (exact) or hnsw64 (faster).")
    ] = "flat",
    device: DeviceOption = "cpu",
) -> Result:
    """Build the index of a corpus."""
    from plat_envs.retrieval.corpus import Corpus, Source
    from plat_envs.retrieval.indexes import build_index

    with bad_input():
        pages = Corpus(corpus)
        build_index(Source(corpus, out, encoder, device), pages, kind)
    return Result({"file": str(out), "pages": len(pages)}, f"{out}: {counted(len(pages), 'page')}, {encoder}")


@verb(CorpusData)
def pages(
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File of the corpus.")],
    count: Annotated[int, typer.Option("--count", min=1, max=1_000_000, help="Number of pages.")] = 2000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="As task.env.encyclopaedia.")] = 0,
) -> Result:
    """Write generated pages as a corpus. The first 2,000 are those that generated questions ask for."""
    from plat_envs.searchqa.encyclopaedia import write_pages

    with bad_input():
        write_pages(out, count, seed)
    return Result({"file": str(out), "pages": count}, f"{out}: {counted(count, 'page')}")


GROUP = VerbGroup(
    "Serve a corpus to the task searchqa, and make one.", {"serve": serve, "build": build, "pages": pages}
)
