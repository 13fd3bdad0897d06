"""Queries of many clients, collected for a few milliseconds and answered together."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from plat_envs.retrieval.finder import Finder, Found

WAIT = 0.007  # for further queries after the first [seconds]
MOST = 256  # queries that are answered together


@dataclass
class _Asked:
    query: str
    count: int
    answer: Future[Found] = field(default_factory=Future)


class Batcher:
    """Calls a finder from one thread: once for all queries of a batch that want the same number of pages.

    `calls` and `queries` count what was done.
    """

    def __init__(self, finder: Finder) -> None:
        self._finder = finder
        self._waiting: queue.SimpleQueue[_Asked] = queue.SimpleQueue()
        self.calls = self.queries = 0
        threading.Thread(target=self._work, name="batches", daemon=True).start()

    def find(self, queries: Sequence[str], count: int) -> list[Found]:
        """Return up to `count` pages for each query. Raises what the finder raises."""
        asked = [_Asked(query, count) for query in queries]
        for one in asked:
            self._waiting.put(one)
        return [one.answer.result() for one in asked]

    def _work(self) -> None:
        while True:
            batch = [self._waiting.get()]
            until = time.monotonic() + WAIT
            while len(batch) < MOST:
                try:
                    batch.append(self._waiting.get(timeout=max(0.0, until - time.monotonic())))
                except queue.Empty:
                    break
            # The pages of HNSW depend on how many are asked for, so another number is another call.
            for count in sorted({one.count for one in batch}):
                self._answer([one for one in batch if one.count == count], count)

    def _answer(self, batch: list[_Asked], count: int) -> None:
        try:
            found = self._finder.find([one.query for one in batch], count)
        except Exception as error:  # whatever it is, its client must hear of it, and the thread must live on
            if len(batch) == 1:
                batch[0].answer.set_exception(error)
            else:  # one query must not spoil the others
                for one in batch:
                    self._answer([one], count)
            return
        self.calls, self.queries = self.calls + 1, self.queries + len(batch)
        for one, pages in zip(batch, found, strict=True):
            one.answer.set_result(pages)
