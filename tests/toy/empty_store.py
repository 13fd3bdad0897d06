"""`python tests/toy/empty_store.py` writes the file of SQL from which empty stores are made anew.

Give it after a change of the pinned MLflow, whose schema may be another one.
"""

from __future__ import annotations

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from plat.store.mlflow import sqlite_creation
from plat.store.mlflow.sqlite_connection import schema_revisions
from plat.store.mlflow.sqlite_creation import make_with_mlflow

HEAD = """\
-- The tables of an empty MLflow store in SQLite, as MLflow itself makes them.
-- Written by tests/toy/empty_store.py, against which the tests hold it.
"""


def schema_file() -> Path:
    return Path(sqlite_creation.__file__).with_name(f"empty_store_{schema_revisions()[0]}.sql")


def sql_of(database: Path) -> str:
    """The statements that make the tables, and the rows that are the same in every empty store."""
    with closing(sqlite3.connect(database)) as connection:
        statements = [text for text in connection.iterdump() if not text.startswith('INSERT INTO "experiments"')]
    kept = [text for text in statements if text not in ("BEGIN TRANSACTION;", "COMMIT;")]
    return "".join(line.rstrip() + "\n" for text in kept for line in text.split("\n"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "mlflow.db"
        make_with_mlflow(database, database)
        schema_file().write_text(HEAD + sql_of(database))


if __name__ == "__main__":
    main()
