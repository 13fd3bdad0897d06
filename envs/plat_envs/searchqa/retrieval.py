"""Where pages are searched: the generated encyclopaedia in memory, or a retrieval server."""

from __future__ import annotations

from collections.abc import Callable

from plat_envs.searchqa.config import SearchQAConfig

Document = tuple[str, float]  # text and score


def retriever(config: SearchQAConfig) -> Callable[[str, int], list[Document]]:
    """Return the function (query, number of pages) -> documents, best first."""
    if config.server:
        from plat_envs.searchqa.client import ServerSearch

        return ServerSearch(config)
    from plat_envs.searchqa.encyclopaedia import encyclopaedia

    pages = encyclopaedia(config.encyclopaedia)

    def search(query: str, count: int) -> list[Document]:
        return [(f"{name}\n{pages.entities[name].text}", score) for name, score in pages.index.search(query, count)]

    return search
