"""Check the structure of an experiment file, without knowing the trainer.

Keys and values of overrides are checked later, by the resolver of the run's trainer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.plugins.loading import published
from plat.spec.expansion.matrix import Matrix
from plat.spec.reading.matrix_reader import MatrixReader, assignments, list_at
from plat.spec.reading.overrides import Assignment, CommandLine
from plat.spec.reading.yaml_reader import Document, read
from plat.suggest import nearest, suggest

KEYS = (
    "title", "question", "prediction", "conclusion", "evidence", "paper", "source", "reference", "order", "base",
    "matrix", "zip", "include", "exclude", "report", "claims", "decide",
)  # fmt: skip
WORDS = ("question", "prediction", "conclusion", "evidence")  # what people read on the report; no run depends on them
ORDERS = ("seeds", "file")  # in which the runs are executed
NAME = re.compile(r"\w[\w. -]{0,119}")  # the name of an experiment or search file, without `.yaml`


@dataclass(frozen=True)
class ExperimentFile:
    """One experiment file: title, words, paper, reference, report, claims and so on (`header`), base, and matrix.

    The matrix has the axes of the command line in place of those of the file.
    """

    document: Document
    header: dict[str, Any]
    base: tuple[Assignment, ...]
    matrix: Matrix


def read_file(document: Document, line: CommandLine) -> ExperimentFile:
    """Return the parts of an experiment file with their positions. Raises SpecError for a mistake in its structure."""
    data = document.data
    if not isinstance(data, dict):
        raise document.error("an experiment file must be a mapping", fix=f"write keys: {', '.join(KEYS)}")
    for key in data:
        if key not in KEYS:
            fix = suggest(key, KEYS, "keys")
            if nearest(str(key), KEYS) is None:
                fix = f"write an option of the runs below `base:`; {fix}"
            raise SpecError(f"unknown key {key!r}", where=document.where_key(key), fix=fix)
    header: dict[str, Any] = {"title": read_title(document, "what this shows")}
    header |= {key: read_text(document, key) for key in ("paper", "source", "reference")}
    header |= {key: (read_text(document, key) or "").strip() for key in WORDS}
    header["order"] = ORDERS[0] if "order" not in data else read_text(document, "order")
    if header["order"] not in ORDERS:
        fix = "`order: seeds` gives each cell its first seed before any gets its second, `order: file` keeps the file's"
        raise document.error(f"unknown order {header['order']!r}", "order", fix=fix)
    matrix = MatrixReader(document, line).matrix()
    base = tuple(assignments(document, ("base",)))
    header["report"] = _entries(document, "report", "builder", "plat.reports")
    header["claims"] = _entries(document, "claims", "check", "plat.claims")
    return ExperimentFile(document, header, base, matrix)


def is_search(path: Path) -> bool:
    """Return True if a file is a search file: it has a `space` or `objectives`. False if it cannot be read."""
    try:
        data = read(path).data
    except SpecError:
        return False
    return isinstance(data, dict) and ("space" in data or "objectives" in data)


def check_name(document: Document) -> None:
    """Raise SpecError if the file's name cannot be a folder of the home and a tag of the store."""
    name = document.path.stem
    if not NAME.fullmatch(name):
        fix = "rename the file: letters, digits, `_`, `-`, `.` and spaces, beginning with a letter, a digit or `_`"
        raise SpecError(f"the file's name {name!r} cannot name its results", where=str(document.path), fix=fix)


def read_title(document: Document, example: str) -> str:
    """Return the title of a file. Raises SpecError if it is missing, empty or no text."""
    title = read_text(document, "title")
    if title is None or not title.strip():
        raise document.error("the file has no title", "title", fix=f"write `title: {example}`")
    return title


def read_text(document: Document, key: str) -> str | None:
    """Return the value at a top-level key as text, None if it is absent. Raises SpecError for a list or a mapping."""
    value = document.data.get(key)
    if isinstance(value, (dict, list)):
        raise document.error(f"{key} must be text", key, fix=f"write `{key}: some words`")
    return None if value is None else str(value)


def _entries(document: Document, key: str, kind: str, group: str) -> list[dict[str, Any]]:
    """Return the report or claim entries: mappings that name a plug-in of an entry-point group."""
    names = tuple(published(group))
    seen: set[str] = set()
    for index, entry in enumerate(list_at(document, key)):
        if not isinstance(entry, dict) or not isinstance(entry.get(kind), str):
            fix = f"write `- {kind}: {names[0] if names else 'NAME'}`"
            raise document.error(f"{key}: an entry needs `{kind}`", key, index, fix=fix)
        if entry[kind] not in names:
            what = f"{key}: unknown {kind} {entry[kind]!r}"
            raise document.error(what, key, index, kind, fix=suggest(entry[kind], names, f"{kind}s"))
        if kind == "check":
            identifier = entry.get("id")
            if not isinstance(identifier, str) or not identifier.strip():
                raise document.error("claims: an entry needs `id`", key, index, fix="write `id: a-short-name`")
            if not isinstance(entry.get("says", ""), str):
                fix = "write `says: the sentence that is judged`"
                raise document.error("claims: `says` must be text", key, index, "says", fix=fix)
            if identifier in seen:
                raise document.error(
                    f"claims: the id {identifier!r} is given twice", key, index, "id", fix="rename one"
                )
            seen.add(identifier)
    return list(list_at(document, key))
