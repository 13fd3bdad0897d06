"""Read the description of an option from the comment beside (or above) its field in a config dataclass.

    turns: int = 5  # at most, per episode [turns]

Brackets at the end hold the unit.
"""

from __future__ import annotations

import ast
import inspect
import io
import re
import textwrap
import tokenize
from functools import cache
from typing import NamedTuple

_UNIT = re.compile(r"\s*\[([^\[\]|]+)\]$")


class Description(NamedTuple):
    """The meaning of an option and the unit of its value; "" if not given."""

    meaning: str = ""
    unit: str = ""


def describe(owner: type, field: str) -> Description:
    """Return the description of a dataclass field, which may be inherited."""
    for kind in owner.__mro__:
        if field in vars(kind).get("__annotations__", {}):
            return _of_class(kind).get(field, Description())
    return Description()


@cache
def _of_class(kind: type) -> dict[str, Description]:
    """Return field -> description for the fields that a class itself defines; {} if its source cannot be read."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):  # the class was made at run time, or its file is gone
        return {}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = {token.start: token.string.lstrip("#").strip() for token in tokens if token.type == tokenize.COMMENT}
    beside = {line: text for (line, _), text in comments.items()}
    lines = source.splitlines()
    body = ast.parse(source).body[0]
    assert isinstance(body, ast.ClassDef)
    described = {}
    for statement in body.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            own = range(statement.lineno, (statement.end_lineno or statement.lineno) + 1)
            text = " ".join(beside[line] for line in own if line in beside) or _above(statement.lineno, lines, beside)
            described[statement.target.id] = _parsed(text)
    return described


def _above(line: int, lines: list[str], beside: dict[int, str]) -> str:
    """Return the comment lines directly above a line."""
    texts: list[str] = []
    while line > 1 and lines[line - 2].lstrip().startswith("#"):
        line -= 1
        texts.insert(0, beside[line])
    return " ".join(texts)


def _parsed(text: str) -> Description:
    unit = _UNIT.search(text)
    return Description(_UNIT.sub("", text), unit[1]) if unit else Description(text)
