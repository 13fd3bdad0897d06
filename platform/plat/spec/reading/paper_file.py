"""Read and check the file of a paper: its printed tables, its claims, and its contradictions.

    experiments/papers/mypaper.yaml       beside the experiment files, or beside the folder that they are in

    title: text
    tables: {NAME: {columns: [text], rows: {ROW: cells}}}     cells are numbers, pairs of them, or cells by name
    claims: [{id: text, says: text, tested_by: [{FILE: CLAIM}]}]
    discrepancies: [{text: text, artifacts: [NAME], cell: {row: text, column: text}}]

Every part that plat uses is checked before anything runs. Other keys are ignored.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.spec.reading.yaml_reader import Document, read
from plat.suggest import suggest

Place = tuple[str | int, ...]
TEXTS = ("title", "url", "citation", "main_claim")
ARTIFACTS = ("artifacts", "tables", "applies_to")


def paper_file(experiment: Path, paper: str) -> Path:
    """Return the path of papers/<paper>.yaml: beside the experiment file, else beside the folder of that file.

    If neither path is a file, return the first one.
    """
    paths = [folder / f"{paper}.yaml" for folder in _folders(experiment)]
    return next((path for path in paths if path.is_file()), paths[0])


def paper_data(experiment: Document, paper: str) -> dict[str, Any]:
    """Return the content of the paper's file. Raises SpecError if it does not exist or a part has the wrong type."""
    path = paper_file(experiment.path, paper)
    known = sorted(entry.stem for folder in _folders(experiment.path) for entry in folder.glob("*.yaml"))
    if paper not in known:
        fix = suggest(paper, known, "papers") if known else f"write {path.parent}/NAME.yaml, or leave `paper` out"
        raise SpecError(f"unknown paper {paper!r}", where=experiment.where("paper"), fix=fix)
    document = read(path)
    if not isinstance(document.data, dict):
        raise document.error("a paper's file must be a mapping", fix="write `title:` and `tables:`")
    _check(document)
    return document.data


def _folders(experiment: Path) -> list[Path]:
    folder = experiment.absolute().parent
    return [folder / "papers", folder.parent / "papers"]


def _check(document: Document) -> None:
    data = document.data
    for key in TEXTS:
        _need(document, (key,), isinstance(data.get(key, ""), str), f"{key} must be text", f"write `{key}: some words`")
    for key, kind in (("tables", dict), ("claims", list), ("discrepancies", list)):
        name, example = ("mapping", "NAME: {rows: ...}") if kind is dict else ("list", "[]")
        right = data.get(key) is None or isinstance(data[key], kind)
        _need(document, (key,), right, f"{key} must be a {name}", f"write `{key}: {example}`")
    for name, table in (data.get("tables") or {}).items():
        _check_table(document, ("tables", name), table)
    seen: set[str] = set()
    for index, claim in enumerate(data.get("claims") or ()):
        _check_claim(document, ("claims", index), claim, seen)
    for index, entry in enumerate(data.get("discrepancies") or ()):
        _check_discrepancy(document, ("discrepancies", index), entry)


def _check_table(document: Document, place: Place, table: Any) -> None:
    fix = "write {columns: [...], rows: {...}}"
    _need(document, place, isinstance(table, dict), "a printed table must be a mapping", fix)
    columns = table.get("columns") or []
    _need(
        document, (*place, "columns"), isinstance(columns, list), "columns must be a list", "write columns: [NAME, ...]"
    )
    for key in ("rows", "cells"):
        rows = table.get(key) or {}
        _need(
            document, (*place, key), isinstance(rows, dict), f"{key} must be a mapping", f"write {key}: {{ROW: cells}}"
        )
        for row, content in rows.items():
            if not isinstance(content, dict | list):
                _check_cell(document, (*place, key, row), content)
                continue
            cells = enumerate(content) if isinstance(content, list) else content.items()  # by column, or by name
            for name, cell in cells:
                if name != "section":
                    _check_cell(document, (*place, key, row, name), cell)


def _check_cell(document: Document, place: Place, cell: Any) -> None:
    """Raise SpecError unless a cell is a number, None, [value, change], or a mapping of such cells."""
    if isinstance(cell, dict):
        for name, inner in cell.items():
            _check_cell(document, (*place, name), inner)
        return
    parts = cell if isinstance(cell, list) and 0 < len(cell) <= 2 else [cell]
    numbers = all(
        part is None or (isinstance(part, int | float) and not isinstance(part, bool) and math.isfinite(part))
        for part in parts
    )
    _need(document, place, numbers, f"cannot read the printed cell {cell!r}", "write a number, or [value, change]")


def _check_claim(document: Document, place: Place, claim: Any, seen: set[str]) -> None:
    has = isinstance(claim, dict) and all(isinstance(claim.get(key), str) for key in ("id", "says"))
    _need(document, place, has, "a claim of the paper has no id or sentence", "write {id: NAME, says: TEXT}")
    _need(document, (*place, "id"), claim["id"] not in seen, f"the id {claim['id']!r} is given twice", "rename one")
    seen.add(claim["id"])
    for key in ("source", "open"):
        right = isinstance(claim.get(key, ""), str)
        _need(document, (*place, key), right, f"{key} must be text", f"write `{key}: some words`")
    tests = claim.get("tested_by") or []
    one_each = isinstance(tests, list) and all(isinstance(test, dict) and len(test) == 1 for test in tests)
    what = f"tested_by of {claim['id']!r} must be a list of claims"
    _need(document, (*place, "tested_by"), one_each, what, "write tested_by: [FILE: ID, ...]")


def _check_discrepancy(document: Document, place: Place, entry: Any) -> None:
    fix = "write {text: TEXT, artifacts: [NAME]}"
    _need(document, place, isinstance(entry, dict), "a contradiction must be a mapping", fix)
    for key in ("text", "topic", "column", "row"):
        right = entry.get(key) is None or isinstance(entry[key], str)
        _need(document, (*place, key), right, f"{key} must be text", f"write `{key}: some words`")
    for key in ARTIFACTS:
        named = entry.get(key)
        listed = isinstance(named, list) and all(isinstance(name, str) for name in named)
        right = named is None or isinstance(named, str) or listed
        _need(document, (*place, key), right, f"{key} must be a name or a list of names", f"write {key}: [table4]")
    cell = entry.get("cell")
    pair = cell.keys() >= {"row", "column"} if isinstance(cell, dict) else isinstance(cell, list) and len(cell) == 2
    right, fix = cell is None or pair, "write {row: ROW, column: COLUMN}"
    _need(document, (*place, "cell"), right, "a cell has a row and a column", fix)


def _need(document: Document, place: Place, right: bool, what: str, fix: str) -> None:
    if not right:
        raise SpecError(what, where=document.where(*place), fix=fix)
