"""Convert the errors of SQLite, MLflow and the network into StoreError: what went wrong, where, and how to fix it."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator

from plat.errors import StoreError
from plat.store.mlflow.uri import mask_passwords, shown_uri

REFILL = "`plat doctor --fix` keeps the file under another name and fills a new one from the run directories"
KEPT = "nothing recorded is lost: the run directories are complete, and `plat sync` then imports them"


@contextlib.contextmanager
def store_errors(uri: str) -> Iterator[None]:
    """Raise StoreError for errors of SQLite, the operating system, imports, MLflow or the network inside the block."""
    try:
        yield
    except StoreError:
        raise
    except (sqlite3.Error, OSError, ImportError) as error:
        raise _explain(uri, str(error), error) from error
    except Exception as error:
        if type(error).__module__.partition(".")[0] in ("mlflow", "sqlalchemy", "requests", "urllib3", "alembic"):
            raise _explain(uri, str(error), error) from error
        raise


_CAUSES = (  # (pattern in the message, what, how to fix it)
    (r"locked|busy", "the store is locked by another program", "close what holds it open for writing and try again"),
    (r"disk is full|No space left", "the disk is full", "free some space"),
    (r"readonly|read-only|unable to open|Permission denied|Is a directory|Not a directory|File exists",
     "the store cannot be written or opened", "make the file and its folder writable, or choose another with --store"),
    (r"not a database|malformed|no such (table|column)|has no column", "the store is damaged",
     f"{REFILL}, or restore a copy"),
    (r"disk I/O", "the disk reported an error", "check the disk and free some space"),
    (r"out-of-date database schema|Can't locate revision", "the store has another MLflow version's schema",
     "run `mlflow db upgrade` on it, or install the MLflow that wrote it"),
    (r"Max retries|Connection refused|ConnectionError|timed out|Name or service not known|resolve|API request|"
     r"could not connect|could not translate|connection to server",
     "the MLflow server cannot be reached", "start it, check --store (MLFLOW_TRACKING_URI), and try again"),
    (r"maintenance mode|file store|filesystem tracking", "MLflow no longer supports stores in plain folders",
     "use sqlite:///FILE.db or a server as --store"),
    (r"No module named", "a driver for this kind of store is not installed", "install it (for PostgreSQL: psycopg)"),
)  # fmt: skip


def _explain(uri: str, message: str, error: BaseException) -> StoreError:
    where = shown_uri(uri)
    for pattern, what, fix in _CAUSES:
        if re.search(pattern, message, re.IGNORECASE):
            return StoreError(what, where=where, fix=f"{fix}; {KEPT}")
    first = next((line for line in message.splitlines() if line.strip()), type(error).__name__)
    return StoreError(
        f"the store refused: {mask_passwords(first.strip())[:300]}",
        where=where,
        fix=f"fix what it names, or choose another store with --store; {KEPT}",
    )
