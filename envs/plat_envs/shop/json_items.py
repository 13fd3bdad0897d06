"""JSON files that are too large for memory: the items of a list, one after the other."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO

from plat_envs.environment_errors import BadEnvironment

CHUNK = 1 << 16  # read at a time [characters]
LARGEST = 1 << 26  # an item, at most [characters]
GET_IT = "get the file again from the WebShop project, which publishes it"


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises BadEnvironment if it cannot be read or holds something else."""
    try:
        content = json.loads(_regular(path).read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it is not an object with the ids of products")
    except (OSError, ValueError, RecursionError) as error:
        raise BadEnvironment(f"cannot read the data: {error}", where=str(path), fix=GET_IT) from None
    return content


def read_items(path: Path, chunk: int = CHUNK) -> Iterator[dict[str, Any]]:
    """Yield the objects of a JSON list. Raises BadEnvironment if the file cannot be read or holds something else."""
    count = 1
    try:
        with _regular(path).open(encoding="utf-8") as file:
            text = _begun("", file, chunk)
            if not text.startswith("["):
                raise ValueError("the file is not a list")
            text = _begun(text[1:], file, chunk)
            while not text.startswith("]"):
                item, text = _first(text, file, chunk)
                yield item
                text, count = _begun(text, file, chunk), count + 1
                if text.startswith(","):
                    text = _begun(text[1:], file, chunk)
                    if text.startswith("]"):
                        raise ValueError("there is none after the last comma")
                elif not text.startswith("]"):
                    raise ValueError("there is no comma before it" if text else "the list has no end")
            if rest := _begun(text[1:], file, chunk):
                raise ValueError(f"the list is closed, and more text follows: {rest[:20]!r}")
    except (OSError, ValueError, RecursionError) as error:
        raise BadEnvironment(f"cannot read item {count} of the list: {error}", where=str(path), fix=GET_IT) from None


def _begun(text: str, file: TextIO, chunk: int) -> str:
    """Return the text without blanks at its beginning; read on in the file until there is something else."""
    while not (text := text.lstrip(" \t\r\n")) and (more := file.read(chunk)):
        text = more
    return text


def _first(text: str, file: TextIO, chunk: int) -> tuple[dict[str, Any], str]:
    """Return the object at the beginning of a text and the rest; read on in the file until the object is complete."""
    while True:
        try:
            item, end = json.JSONDecoder().raw_decode(text)
        except ValueError:
            more = file.read(max(chunk, len(text))) if len(text) < LARGEST else ""
            if not more:
                raise
            text += more
        else:
            if not isinstance(item, dict):
                raise ValueError("it is not an object")
            return item, text[end:]


def _regular(path: Path) -> Path:
    """Return the path. Raises OSError unless it is a file: reading a pipe may never end."""
    if not path.is_file():
        raise OSError("there is no such file")
    return path
