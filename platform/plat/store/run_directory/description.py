"""Read what a run directory says about its run, without its metrics and tables: for its artifact and for bundles.

Host names, process ids and the names of changed files are left out, and everything that concerns the directory alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from plat.plain_files import read_bytes, read_text
from plat.store.run_directory import run_files
from plat.store.run_directory.paths import AttemptPaths, RunPaths

PRIVATE = ("host", "boot_id", "pid")  # keys of attempt.json about the machine
RESTORED = ("restored_step", "restored_from")  # keys of attempt.json that refer to other attempts
DIFF_HASH = "code_diff_sha256"  # key of an imported attempt.json: the hash of a diff that was not included
REDACTED = ("error", "events", "run", "attempt")  # keys of outcome.json: a message with paths, and of the directory
MEASURED = "measured"  # key of result.json: the SHA-256 of the artifact that was logged
OF_DIRECTORY = {"meta.json": ("format", "files"), "attempt.json": ("run",), "result.json": ("events", MEASURED)}


def describe(paths: RunPaths, meta: Mapping[str, Any]) -> dict[str, Any]:
    """Return meta, config, code, diff_sha256, result, attempt, attempt_meta, attempt_outcome of a run as JSON values.

    Values of absent files are None, or empty. Raises OSError if a file cannot be read.

    meta  the content of meta.json
    """
    result, last = run_files.read_result(paths), last_attempt(paths)
    diff = read_bytes(paths.diff) if paths.diff.exists() else None
    started = run_files.read_attempt_meta(last) if last else {}
    outcome = (run_files.read_outcome(last) if last else None) or {}
    hidden = (*PRIVATE, *RESTORED, DIFF_HASH, *OF_DIRECTORY["attempt.json"])
    return {
        "meta": without(meta, OF_DIRECTORY["meta.json"]),
        "config": read_text(paths.config),
        "code": _code_text(paths),
        "diff_sha256": hashlib.sha256(diff).hexdigest() if diff is not None else started.get(DIFF_HASH),
        "result": None if result is None else without(result, OF_DIRECTORY["result.json"]),
        "attempt": last.number if last else 0,
        "attempt_meta": without(started, hidden),
        "attempt_outcome": without(outcome, REDACTED),
    }


def without(content: Mapping[str, Any], keys: tuple[str, ...]) -> dict[str, Any]:
    """Return a mapping without some keys."""
    return {key: value for key, value in content.items() if key not in keys}


def _code_text(paths: RunPaths) -> str | None:
    """Return the content of code.txt, without names of changed and untracked files."""
    if not paths.code.exists():
        return None
    lines = read_text(paths.code).splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith(("untracked:", "changed:")))


def last_attempt(paths: RunPaths) -> AttemptPaths | None:
    """Return the attempt that made the result, else the newest one."""
    attempts = paths.attempts()
    number = (run_files.read_result(paths) or {}).get("attempt")
    return next((attempt for attempt in attempts if attempt.number == number), attempts[-1] if attempts else None)
