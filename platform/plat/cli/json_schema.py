"""Make a JSON Schema of what a verb prints with `--json`, from its type in `plat.cli.schemas`."""

from __future__ import annotations

from typing import Any

from plat.cli.schemas import lines

OPEN = ("RunRow", "PlanData", "SchemaData")  # types with further keys
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schema_of(gives: type, name: str, *, is_lines: bool) -> dict[str, Any]:
    """Return the JSON Schema of a document of the verb `name`; of each of its lines with `is_lines`.

    gives  the type of the document, or of the last line

    Every schema allows an error in place of the result.
    """
    result = _schema(gives)
    if is_lines:
        result["properties"] = {"event": {"const": "result"}, **result["properties"]}
        result["required"] = ["event", *result.get("required", ())]
    kinds = [lines.RunEvent, lines.ProgressEvent, lines.MessageEvent] if is_lines else []
    every = [result, *map(_schema, (*kinds, lines.Failed))]
    shared = {key: value for one in every for key, value in one.pop("$defs", {}).items()}
    title = f"a line of plat {name} --json" if is_lines else f"plat {name} --json"
    return {"$schema": DIALECT, "title": title, "anyOf": every, "$defs": shared}


def _schema(kind: type) -> dict[str, Any]:
    from pydantic import TypeAdapter

    _configure(kind)
    return TypeAdapter(kind).json_schema()


def _configure(kind: Any) -> None:
    """Let pydantic read the docstrings of the keys of a type and of those in it, and forbid other keys."""
    from typing import get_args, get_type_hints

    from typing_extensions import is_typeddict

    if is_typeddict(kind):
        extra = "allow" if kind.__name__ in OPEN else "forbid"
        kind.__pydantic_config__ = {"extra": extra, "use_attribute_docstrings": True}
        for hint in get_type_hints(kind).values():
            _configure(hint)
    else:
        for part in get_args(kind):
            _configure(part)
