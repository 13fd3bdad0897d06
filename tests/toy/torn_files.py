"""Damage to the files of a home, as disks, copies and people do it: one change each, drawn from a seed."""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

Change = Callable[[Path, random.Random, list[Path]], bool]
BLOCK = 512
NOT_TORN = (".lock", "-shm")  # they hold nothing


def damage(home: Path, seed: int, among: Callable[[Path], bool] = lambda path: True) -> str:
    """Change one of the files of a home that `among` takes by their path in it; what was done. Kinds of files are drawn
    first, so that rare ones come as often."""
    rng = random.Random(seed)
    kinds: dict[str, list[Path]] = {}
    for path in sorted(home.rglob("*")):
        if path.is_file() and not path.name.endswith(NOT_TORN) and among(path.relative_to(home)):
            kinds.setdefault(_kind(path.relative_to(home)), []).append(path)
    while True:
        kind = rng.choice(sorted(kinds))
        path, change = rng.choice(kinds[kind]), rng.choice(CHANGES)
        if change(path, rng, kinds[kind]):
            return f"{change.__name__} {path.relative_to(home)}"


def _kind(path: Path) -> str:
    """Files of one kind have the same name in the folders of all runs, submissions and base models."""
    return path.name if path.parts[0] in ("runs", "mlartifacts", "cache", "submissions") else str(path)


def cut(path: Path, rng: random.Random, _: list[Path]) -> bool:
    data = path.read_bytes()
    path.write_bytes(data[: rng.randrange(len(data))] if data else b"")
    return bool(data)


def empty(path: Path, _: random.Random, __: list[Path]) -> bool:
    path.write_bytes(b"")
    return True


def flip(path: Path, rng: random.Random, _: list[Path]) -> bool:
    data = bytearray(path.read_bytes())
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        path.write_bytes(data)
    return bool(data)


def zero_block(path: Path, rng: random.Random, _: list[Path]) -> bool:
    data = bytearray(path.read_bytes())
    if data:
        start = rng.randrange(len(data)) // BLOCK * BLOCK
        data[start : start + BLOCK] = bytes(len(data[start : start + BLOCK]))
        path.write_bytes(data)
    return bool(data)


def append(path: Path, rng: random.Random, _: list[Path]) -> bool:
    path.write_bytes(path.read_bytes() + rng.randbytes(40))
    return True


def remove(path: Path, _: random.Random, __: list[Path]) -> bool:
    path.unlink()
    return True


def remove_line(path: Path, rng: random.Random, _: list[Path]) -> bool:
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) < 2:
        return False
    del lines[rng.randrange(len(lines))]
    path.write_bytes(b"".join(lines))
    return True


def double_line(path: Path, rng: random.Random, _: list[Path]) -> bool:
    lines = path.read_bytes().splitlines(keepends=True)
    if len(lines) < 2:
        return False
    at = rng.randrange(len(lines))
    path.write_bytes(b"".join([*lines[:at], lines[at], *lines[at:]]))
    return True


def exchange(path: Path, rng: random.Random, alike: list[Path]) -> bool:
    others = [other for other in alike if other != path and other.read_bytes() != path.read_bytes()]
    if not others:
        return False
    other = rng.choice(others)
    ours, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(ours)
    return True


def copy_over(path: Path, rng: random.Random, alike: list[Path]) -> bool:
    others = [other for other in alike if other.read_bytes() != path.read_bytes()]
    if others:
        shutil.copy(rng.choice(others), path)
    return bool(others)


def edit_digit(path: Path, rng: random.Random, _: list[Path]) -> bool:
    data = bytearray(path.read_bytes())
    digits = [at for at, byte in enumerate(data) if 48 <= byte <= 57]
    if b"\0" in data or not digits:
        return False
    at = rng.choice(digits)
    data[at] = 48 + (data[at] - 48 + rng.randrange(1, 10)) % 10
    path.write_bytes(data)
    return True


def edit_value(path: Path, rng: random.Random, _: list[Path]) -> bool:
    """Another value in a JSON file, with or without its checksum."""
    try:
        content = json.loads(path.read_bytes())
    except ValueError:
        return False
    if not isinstance(content, dict) or not content:
        return False
    if rng.random() < 0.5:
        content.pop("checksum", None)
    key = rng.choice(sorted(content)) if content else ""
    content[key] = _another(content.get(key), rng)
    path.write_text(json.dumps(content))
    return True


def edit_row(path: Path, rng: random.Random, _: list[Path]) -> bool:
    """A value in a row of a database, or the row itself."""
    if path.suffix != ".db":
        return False
    with closing(sqlite3.connect(path)) as database, database:
        named = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")
        tables = [name for (name,) in named if "alembic" not in name and "version" not in name]
        filled = [name for name in tables if database.execute(f'SELECT 1 FROM "{name}"').fetchone()]
        if not filled:
            return False
        table = rng.choice(filled)
        columns = [row[1] for row in database.execute(f'PRAGMA table_info("{table}")')]
        rows = database.execute(f'SELECT * FROM "{table}"').fetchall()
        row, at = rng.choice(rows), rng.randrange(len(columns))
        where = " AND ".join(f'"{column}" IS ?' for column in columns)
        try:
            if rng.random() < 0.3:
                database.execute(f'DELETE FROM "{table}" WHERE {where}', row)
            else:
                value = _another(row[at], rng)
                database.execute(f'UPDATE "{table}" SET "{columns[at]}" = ? WHERE {where}', (value, *row))
        except sqlite3.Error:
            return False
    return True


def _another(value: Any, rng: random.Random) -> Any:
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int):
        return value + rng.choice([-1, 1, 1000])
    if isinstance(value, float):
        return value * 0.5 + rng.random()
    return "x" if isinstance(value, str) else []


CHANGES: tuple[Change, ...] = (
    cut, empty, flip, zero_block, append, remove, remove_line, double_line, exchange, copy_over, edit_digit, edit_value,
    edit_row, edit_row, edit_row,
)  # fmt: skip
