"""An experiment file's structure, checked as far as it can be without knowing the trainer.

`read_file(document, line)` gives the header, the base overrides and the matrix, each part with the place where it was
written. Keys and values of overrides are checked later, by the resolver of the run's trainer.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat.errors import SpecError
from plat.spec.leaf import plugin_names
from plat.spec.matrix import Matrix
from plat.spec.matrix_reader import MatrixReader, assignments, list_at
from plat.spec.overrides import Assignment, CommandLine
from plat.spec.yaml_reader import Document
from plat.suggest import mend

KEYS = ("title", "paper", "source", "reference", "base", "matrix", "zip", "include", "exclude", "report", "claims")


@dataclass(frozen=True)
class ExperimentFile:
    """One experiment file as written; `matrix` holds its axes before the command line changes them."""

    document: Document
    title: str
    paper: str | None
    source: str | None
    reference: str | None
    base: tuple[Assignment, ...]
    matrix: Matrix
    report: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)


def read_file(document: Document, line: CommandLine) -> ExperimentFile:
    """Check one file, with the axes that the command line gives in place of the file's."""
    data = document.data
    if not isinstance(data, dict):
        raise SpecError(
            "an experiment file is a mapping", where=document.where(), mend=f"write keys: {', '.join(KEYS)}"
        )
    for key in data:
        if key not in KEYS:
            raise SpecError(f"unknown key {key!r}", where=document.where_key(key), mend=mend(key, KEYS, "keys"))
    title = _text(document, "title")
    if title is None or not title.strip():
        raise SpecError("the file has no title", where=document.where("title"), mend="write `title: what this shows`")
    matrix = MatrixReader(document, line).matrix()
    return ExperimentFile(
        document,
        title,
        _text(document, "paper"),
        _text(document, "source"),
        _text(document, "reference"),
        tuple(assignments(document, ("base",))),
        matrix,
        _entries(document, "report", "builder", "plat.reports"),
        _entries(document, "claims", "check", "plat.claims"),
    )


def _text(document: Document, key: str) -> str | None:
    value = document.data.get(key)
    if value is None:
        return None
    if isinstance(value, (dict, list)):
        raise SpecError(f"{key} is text", where=document.where(key), mend=f"write `{key}: some words`")
    return str(value)


def _entries(document: Document, key: str, kind: str, group: str) -> list[dict[str, Any]]:
    """Report or claim entries: mappings that name a plugin of an entry-point group."""
    names = plugin_names(group)
    seen: set[str] = set()
    for index, entry in enumerate(list_at(document, key)):
        where = document.where(key, index)
        if not isinstance(entry, dict) or not isinstance(entry.get(kind), str):
            raise SpecError(
                f"{key}: an entry needs `{kind}`",
                where=where,
                mend=f"write `- {kind}: {names[0] if names else 'NAME'}`",
            )
        if entry[kind] not in names:
            where = document.where(key, index, kind)
            raise SpecError(
                f"{key}: unknown {kind} {entry[kind]!r}", where=where, mend=mend(entry[kind], names, f"{kind}s")
            )
        if kind == "check":
            if not isinstance(entry.get("id"), str) or not entry["id"].strip():
                raise SpecError("claims: an entry needs `id`", where=where, mend="write `id: a-short-name`")
            if not isinstance(entry.get("says", ""), str):
                where = document.where(key, index, "says")
                raise SpecError("claims: says is text", where=where, mend="write `says: the sentence that is judged`")
            if entry["id"] in seen:
                where = document.where(key, index, "id")
                raise SpecError(f"claims: the id {entry['id']!r} is given twice", where=where, mend="rename one")
            seen.add(entry["id"])
    return list(list_at(document, key))
