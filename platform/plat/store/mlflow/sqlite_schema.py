"""The schema revision of a SQLite store, compared with those that the installed MLflow knows."""

from __future__ import annotations

import importlib.util
import re
import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from plat.errors import StoreError
from plat.store.mlflow.store_errors import KEPT, REFILL

NEEDED = frozenset({"alembic_version", "experiments", "runs", "tags", "params", "metrics", "latest_metrics"})
_COLUMNS = "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c WHERE m.type = 'table'"


@lru_cache(maxsize=1)
def schema_revisions() -> tuple[str, frozenset[str]]:
    """(newest, all) schema revisions of the installed MLflow, read from its migration files without importing it."""
    spec = importlib.util.find_spec("mlflow")
    if spec is None or not spec.submodule_search_locations:
        raise StoreError("MLflow is not installed", mend="install plat's requirements again")
    folder = Path(next(iter(spec.submodule_search_locations))) / "store" / "db_migrations" / "versions"
    known: set[str] = set()
    older: set[str] = set()
    for file in folder.glob("*.py"):
        text = file.read_text(encoding="utf-8")
        known.update(re.findall(r"^revision\b.*?=\s*[\"'](\w+)[\"']", text, re.MULTILINE))
        older.update(re.findall(r"^down_revision\b.*?=\s*[\"'](\w+)[\"']", text, re.MULTILINE))
    return next(iter(known - older)), frozenset(known)


class IncompleteStore(StoreError):
    """A part of the schema is gone from a store's file."""

    def __init__(self, what: str, path: Path) -> None:
        super().__init__(f"the store is damaged: {what}", where=str(path), mend=REFILL)


def check_revision(connection: sqlite3.Connection, path: Path) -> str:
    """The schema revision of the open file; StoreError unless it is the newest that the installed MLflow knows.

    IncompleteStore when tables of it are gone.
    """
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    missing = NEEDED - tables
    if 2 * len(missing) >= len(NEEDED):  # other programs, too, have tables of runs or tags
        raise StoreError(
            "this file is not an MLflow store",
            where=str(path),
            mend=f"move it away or name another with --store; {KEPT}",
        )
    if missing:
        raise IncompleteStore(f"its table {sorted(missing)[0]} is gone", path)
    rows = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    if not rows:
        raise IncompleteStore("its table alembic_version is empty", path)
    revision = str(rows[0][0])
    newest, known = schema_revisions()
    if revision == newest:
        return revision
    if revision in known:
        raise StoreError(
            f"the store has an older MLflow's schema ({revision}; the installed MLflow wants {newest})",
            where=str(path),
            mend=f"copy it, then run `mlflow db upgrade sqlite:///{path}`; {KEPT}",
        )
    raise StoreError(
        f"the store was written by a newer MLflow (schema {revision}, unknown to the installed one)",
        where=str(path),
        mend=f"upgrade mlflow, or choose another store with --store; {KEPT}",
    )


def lost_column(connection: sqlite3.Connection, revision: str) -> str:
    """The first `table.column` that a new store of this revision has and this one lacks; "" when it has all, and where
    plat has no such schema."""
    schema = schema_file(revision)
    if not schema.exists():
        return ""
    with closing(sqlite3.connect(":memory:")) as new:
        new.executescript(schema.read_text(encoding="utf-8"))
        lost = {tuple(row) for row in new.execute(_COLUMNS)} - {tuple(row) for row in connection.execute(_COLUMNS)}
    return ".".join(min(lost)) if lost else ""


def schema_file(revision: str) -> Path:
    """The SQL that makes the tables of a new store of this revision; there may be none."""
    return Path(__file__).with_name(f"empty_store_{revision}.sql")
