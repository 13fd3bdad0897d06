"""How `plat base` shows base models: as rows for a program, as tables for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from plat.cli.table import table as text_table

if TYPE_CHECKING:
    from plat.trainer.embedded.base_model.builds import Verification
    from plat.trainer.embedded.base_model.record import BaseRecord

HEADER = ("model", "seed", "recipe", "content", "parameters", "KB", "where", "named by", "differs in")


def row(record: BaseRecord, where: str, named_by: Sequence[str] = ()) -> dict[str, Any]:
    """A base that is there, JSON-able; `where` is "shipped" or "built here"."""
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


def table(rows: Sequence[dict[str, Any]], missing: Sequence[dict[str, Any]]) -> str:
    """The bases that are there, then those that files name and nobody has built yet."""
    lines = []
    for base in rows:
        numbers = (base["parameters"], base["bytes"] // 1000)
        names = (base["where"], ", ".join(base["named_by"]), _differs(base, [*rows, *missing]))
        lines.append([base["model"], base["seed"], base["recipe_hash"], base["sha256"][:12], *numbers, *names])
    for base in missing:
        lines.append(
            [
                base["model"],
                base["seed"],
                base["recipe_hash"],
                "",
                "",
                "",
                "to build",
                ", ".join(base["named_by"]),
                _differs(base, [*rows, *missing]),
            ]
        )
    return text_table(HEADER, lines, indent="") if lines else "no base models here"


def _differs(base: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    """The settings, the seed aside, in which the bases of one model are not all equal: `grounded 0.2`."""
    settings = [other["settings"] for other in others if other["model"] == base["model"]]
    mine = base["settings"]
    differing = [key for key in mine if key != "seed" and any(other.get(key) != mine[key] for other in settings)]
    return ", ".join(f"{key} {mine[key]}" for key in differing)


def verification_json(result: Verification) -> dict[str, Any]:
    """A shipped base beside the rebuilt one, JSON-able."""
    return {
        **{key: value for key, value in row(result.shipped, "shipped").items() if key != "named_by"},
        "rebuilt_sha256": result.rebuilt.sha256,
        "same_bytes": result.same_bytes,
        "tasks": [asdict(task) for task in result.tasks],
    }


def verification(result: Verification) -> str:
    """The same as a table with one row for each task; differences in percentage points."""
    same = "the rebuilt one has the same bytes" if result.same_bytes else "the rebuilt one has other last bits"
    header = ("task", "instances", "shipped", "rebuilt", "difference [95 % interval]", "verdict")
    lines: list[Sequence[Any]] = []
    for task in result.tasks:
        interval = f"{100 * task.difference:+.1f} [{100 * task.low:+.1f}, {100 * task.high:+.1f}]"
        lines.append((task.task, task.instances, f"{task.shipped:.1%}", f"{task.rebuilt:.1%}", interval, task.verdict))
    return f"{result.shipped.model} (seed {result.shipped.recipe['base']['seed']}): {same}\n{text_table(header, lines)}"
