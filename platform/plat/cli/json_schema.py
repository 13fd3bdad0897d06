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

    types = _configured(kind)
    found: dict[str, Any] = TypeAdapter(kind).json_schema()
    for name, part in {kind.__name__: found, **found.get("$defs", {})}.items():
        for base in getattr(types[name], "__orig_bases__", ()):  # pydantic reads the docstrings of own keys alone
            if base.__name__ in types:
                for key, one in TypeAdapter(base).json_schema()["properties"].items():
                    if "description" in one:
                        part["properties"][key].setdefault("description", one["description"])
    return found


def _configured(kind: Any) -> dict[str, Any]:
    """Let pydantic read the docstrings of the keys of a type and of those in it, and forbid other keys.

    Returns name -> type, of all of these types and of those from which they inherit keys.
    """
    from typing import get_args, get_type_hints

    from typing_extensions import is_typeddict

    if not is_typeddict(kind):
        return {name: one for part in get_args(kind) for name, one in _configured(part).items()}
    extra = "allow" if kind.__name__ in OPEN else "forbid"
    kind.__pydantic_config__ = {"extra": extra, "use_attribute_docstrings": True}
    found = {kind.__name__: kind}
    for part in (*get_type_hints(kind).values(), *getattr(kind, "__orig_bases__", ())):
        found |= _configured(part)
    return found
