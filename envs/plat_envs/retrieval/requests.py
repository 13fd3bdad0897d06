"""The two forms of a request, and its answer: that of Search-R1, and that of RAGEN (and rLLM).

Search-R1  {"queries": ["..."], "topk": 3, "return_scores": true}
           {"result": [[{"document": {"id": "0", "contents": "..."}, "score": 0.8}]]}
           without return_scores: {"result": [[{"id": "0", "contents": "..."}]]}
RAGEN      {"query": "...", "top_k": 10}
           {"query": "...", "method": "dense", "num_results": 1,
            "results": [{"id": "doc_1", "content": "...", "score": 0.8}]}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plat_envs.environment_errors import BadEnvironment

MOST_QUERIES, MOST_PAGES, MOST_CHARACTERS = 1024, 1000, 10_000
_COUNTS = {"queries": (("topk",), 3), "query": (("top_k", "k"), 10)}  # as both servers have them
FORMS = '{"queries": ["..."], "topk": 3, "return_scores": true} or {"query": "...", "top_k": 10}'


@dataclass(frozen=True)
class Request:
    """`scores`: with scores; `single`: in RAGEN's form."""

    queries: tuple[str, ...]
    count: int
    scores: bool = True
    single: bool = False


def read_request(body: bytes) -> Request:
    """Return the request of a body. Raises BadEnvironment, with a sentence for the client, if it is none."""
    try:
        asked = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise BadEnvironment(f"the request is no JSON: {error}", fix=FORMS) from None
    form = next((name for name in _COUNTS if isinstance(asked, dict) and name in asked), None)
    if form is None:
        raise BadEnvironment("the request has neither queries nor query", fix=FORMS)
    queries = asked["queries"] if form == "queries" else [asked["query"]]
    if not isinstance(queries, list) or not all(isinstance(query, str) for query in queries):
        raise BadEnvironment(f"{form} is {str(asked[form])[:80]!r}", fix=FORMS)
    if len(queries) > MOST_QUERIES or any(len(query) > MOST_CHARACTERS for query in queries):
        raise BadEnvironment(f"more than {MOST_QUERIES:,} queries, or one of more than {MOST_CHARACTERS:,} characters")
    names, count = _COUNTS[form]
    for name in names:
        if asked.get(name) is not None:
            count = asked[name]
            break
    if type(count) is not int or not 1 <= count <= MOST_PAGES:
        raise BadEnvironment(f"{names[0]} is {count!r}", fix=f"a whole number from 1 to {MOST_PAGES:,}")
    clean = tuple(query.encode("utf-8", "replace").decode() for query in queries)  # tokenizers refuse half characters
    return Request(clean, count, bool(asked.get("return_scores", False)), form == "query")


def reply(request: Request, kind: str, found: Sequence[Sequence[tuple[dict[str, Any], float]]]) -> dict[str, Any]:
    """Return the answer in the form of the request. `found`: for each query, pages of the corpus and their scores."""
    if request.single:
        results = [
            {"id": f"doc_{rank}", "content": page["contents"], "score": score}
            for rank, (page, score) in enumerate(found[0], start=1)
        ]
        return {"query": request.queries[0], "method": kind, "results": results, "num_results": len(results)}
    if request.scores:
        return {"result": [[{"document": page, "score": score} for page, score in pages] for pages in found]}
    return {"result": [[page for page, _ in pages] for pages in found]}
