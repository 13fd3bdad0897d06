"""Read what a script logs with W&B's client in its offline mode. Needs the extra `wandb`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.plain_files import parse_json
from plat.trainer.script.readers.logged import Logged, Refuse, json_number
from plat.trainer.script.readers.objects import flat
from plat.trainer.script.readers.wandb_log import WandbLog

PATTERN = "*.wandb"
LATE = 5.0  # seconds
OF_WANDB = ("_runtime", "_timestamp", "_wandb", "_step")  # metrics that W&B adds, about the time


class WandbFiles:
    """The metrics in all logs of W&B below a folder."""

    def __init__(self, folder: Path, refuse: Refuse) -> None:
        self._folder, self._refuse = folder, refuse
        self._logs: dict[Path, WandbLog] = {}
        self._ended: set[Path] = set()  # logs that say how their run has ended

    def new(self, is_last: bool = False) -> Iterator[Logged]:
        """Yield the metrics since the last call, of one log after the other.

        `is_last`: wait up to LATE seconds for the process of W&B that writes the logs, after the script has ended.
        """
        until = time.monotonic() + LATE
        yield from self._new(False)
        while is_last and not (self._logs and self._ended >= self._logs.keys()) and time.monotonic() < until:
            time.sleep(0.1)
            yield from self._new(False)
        if is_last:
            yield from self._new(True)

    def _new(self, is_last: bool) -> Iterator[Logged]:
        for path in sorted(self._folder.rglob(PATTERN)):
            if path.is_symlink() or path.parent.is_symlink():  # `latest-run`
                continue
            log = self._logs.setdefault(path, WandbLog(path))
            try:
                for record in log.records():
                    kind = record.WhichOneof("record_type")
                    if kind == "exit":
                        self._ended.add(path)
                    elif kind == "history":
                        logged = history_of(record.history)
                        own = {name: value for name, value in logged.metrics.items() if name not in OF_WANDB}
                        yield logged._replace(metrics=own, counter=path.stem)
            except SpecError as error:
                if is_last:
                    self._refuse(error.what, error.where or "", error.fix or "")


def history_of(history: Any) -> Logged:
    """Return the numbers of a history record; those in a mapping by dotted names."""
    metrics = dict(_numbers(history.item))
    return Logged(history.step.num, metrics, metrics.get("_timestamp", 0.0))


def parsed(text: str) -> Any:
    """Return the value of a JSON text in a record; the text itself if it is none."""
    try:
        return parse_json(text)
    except ValueError:
        return text


def _numbers(items: Iterable[Any]) -> Iterator[tuple[str, float]]:
    for item in items:
        name = ".".join(item.nested_key) or item.key
        value = parsed(item.value_json)
        nested = flat({name: value}) if isinstance(value, dict) and "_type" not in value else {name: value}
        for key, inner in nested.items():
            if (number := json_number(inner)) is not None:
                yield key, number
