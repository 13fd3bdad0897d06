"""Show the base models of `plat base` as JSON rows and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from plat.cli.screen.table import table as text_table
from plat.cli.screen.table import terminal_width

if TYPE_CHECKING:
    from plat_rl.embedded.base_model.base_record import BaseRecord
    from plat_rl.embedded.base_model.builds import Verification
    from plat_rl.run_config import ModelConfig

HEADER = ("model", "seed", "recipe", "content", "parameters", "KB", "where", "named by", "differs in")
IN_A_PIPE = 80  # columns without a terminal, as many files may name a base


def row(record: BaseRecord, where: str, named_by: Sequence[str] = ()) -> dict[str, Any]:
    """Return an existing base as a JSON-able row.

    `where` ("shipped" or "built here") and `named_by` become values of the row as they are.
    """
    return {
        "model": record.model,
        "version": record.recipe["base"]["version"],
        "seed": record.recipe["base"]["seed"],
        "recipe_hash": record.recipe_hash,
        "sha256": record.sha256,
        "parameters": record.parameters,
        "bytes": record.size,
        "where": where,
        "settings": record.recipe["base"],
        "folder": str(record.folder),
        "named_by": list(named_by),
    }


def missing_row(key: str, model: ModelConfig, named_by: Sequence[str]) -> dict[str, Any]:
    """Return a base that files name and that is not built yet as a JSON-able row."""
    return {
        "recipe_hash": key.rpartition("-")[2],
        "model": model.name,
        "seed": model.base.seed,
        "settings": asdict(model.base),
        "named_by": list(named_by),
    }


def table(rows: Sequence[dict[str, Any]], missing: Sequence[dict[str, Any]]) -> str:
    """Return a table of the existing bases, then of bases that files name and that are not built yet."""
    lines = []
    for base in [*rows, *missing]:
        names = (base.get("where", "to build"), ", ".join(base["named_by"]), _differs(base, [*rows, *missing]))
        facts = (base["sha256"][:12], base["parameters"], base["bytes"] // 1000) if "sha256" in base else ("", "", "")
        lines.append([base["model"], base["seed"], base["recipe_hash"], *facts, *names])
    room = terminal_width() or IN_A_PIPE
    return text_table(HEADER, lines, room, indent="", drop_empty=True) if lines else "no base models here"


def _differs(base: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    """Return the settings other than the seed in which the bases of one model differ: `grounded 0.2`."""
    settings = [other["settings"] for other in others if other["model"] == base["model"]]
    mine = base["settings"]
    differing = [key for key in mine if key != "seed" and any(other.get(key) != mine[key] for other in settings)]
    return ", ".join(f"{key} {mine[key]}" for key in differing)


def verification_json(result: Verification) -> dict[str, Any]:
    """Return the comparison of a shipped base with its rebuilt copy as a JSON-able row.

    It is the row of the shipped base without `named_by`, with `rebuilt_sha256`, `same_bytes`, and `tasks`: the
    comparison of each task.
    """
    return {
        **{key: value for key, value in row(result.shipped, "shipped").items() if key != "named_by"},
        "rebuilt_sha256": result.rebuilt.sha256,
        "same_bytes": result.same_bytes,
        "tasks": [asdict(task) for task in result.tasks],
    }


def verification(result: Verification) -> str:
    """Return a sentence and a table with one row for each task; differences are in percentage points."""
    same = "the rebuilt one has the same bytes" if result.same_bytes else "the rebuilt one has other last bits"
    header = ("task", "instances", "shipped", "rebuilt", "difference [95 % interval]", "verdict")
    lines: list[Sequence[Any]] = []
    for task in result.tasks:
        interval = f"{100 * task.difference:+.1f} [{100 * task.low:+.1f}, {100 * task.high:+.1f}]"
        lines.append((task.task, task.instances, f"{task.shipped:.1%}", f"{task.rebuilt:.1%}", interval, task.verdict))
    return f"{result.shipped.model} (seed {result.shipped.recipe['base']['seed']}): {same}\n{text_table(header, lines)}"
