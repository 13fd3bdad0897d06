"""The schema revision of a SQLite store, compared with those that the installed MLflow knows."""

from __future__ import annotations

import importlib.util
import re
import sqlite3
from functools import lru_cache
from pathlib import Path

from plat.errors import StoreError
from plat.store.mlflow.store_errors import KEPT


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


def check_revision(connection: sqlite3.Connection, path: Path) -> str:
    """The schema revision of the open file; StoreError unless it is the newest that the installed MLflow knows."""
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    rows = connection.execute("SELECT version_num FROM alembic_version").fetchall() if "runs" in tables else []
    if not rows:
        raise StoreError(
            "this file is not an MLflow store",
            where=str(path),
            mend=f"move it away or name another with --store; {KEPT}",
        )
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
