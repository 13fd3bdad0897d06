"""Read Python code without executing it: what it imports, and a hash that comments and layout do not change.

The hash covers the syntax tree in a form of our own: the class of each node and its fields that are not empty, in
order, without positions. So Python 3.11 and 3.12 give the same one. Docstrings count. Raise VERSION when the form
changes, because every hash then changes, and with it the ids of runs.
"""

from __future__ import annotations

import ast
import hashlib
from functools import cache, lru_cache
from typing import NamedTuple

VERSION = 1
DIGITS = 16
PREFIX = f"py{VERSION}:"
# `kind` is the prefix u of a text, `type_comment` a comment
_LEFT_OUT = ("kind", "type_comment", "type_ignores", "ctx")


class PythonCode(NamedTuple):
    """What is known of a Python file. `tree`: its syntax, None if it cannot be parsed. `hash`: as `code_hash`."""

    tree: ast.Module | None
    hash: str


@lru_cache(maxsize=1024)
def python_code(content: bytes) -> PythonCode:
    """Return what is known of the content of a Python file. The tree is shared: change nothing in it."""
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return PythonCode(None, hashlib.sha256(content).hexdigest()[:DIGITS])
    return PythonCode(tree, PREFIX + hashlib.sha256(_form(tree)).hexdigest()[:DIGITS])


def code_hash(content: bytes) -> str:
    """Return PREFIX and DIGITS digits for Python code, or the digits of the SHA-256 of what cannot be parsed."""
    return python_code(content).hash


def _form(tree: ast.AST) -> bytes:
    """Return the canonical form of a tree. Without recursion: a long sum is a deep tree."""
    done: list[bytes] = []
    waiting: list[object] = [tree]  # nodes and lists, and bytes that are ready
    while waiting:
        item = waiting.pop()
        if isinstance(item, bytes):
            done.append(item)
        elif isinstance(item, list):
            done.append(b"[")
            waiting.append(b"]")
            for each in reversed(item):
                waiting += (b",", each if isinstance(each, ast.AST) else _constant(each))
        elif isinstance(item, ast.AST):
            opening, fields = _fields(type(item).__name__)
            done.append(opening)
            waiting.append(b")")
            for name, equals in reversed(fields):
                value = getattr(item, name, None)
                if name == "values" and isinstance(item, ast.JoinedStr):
                    value = _without_empty(item)
                if isinstance(value, ast.AST) or (isinstance(value, list) and value):
                    waiting += (value, equals)
                elif isinstance(item, ast.Constant) or (value is not None and value != []):
                    waiting += (_constant(value), equals)
    return b"".join(done)


@cache
def _fields(kind: str) -> tuple[bytes, list[tuple[str, bytes]]]:
    """Return how the form of a node begins, and its fields that count, each with its name before the value."""
    names = [name for name in getattr(ast, kind)._fields if name not in _LEFT_OUT]
    return f"({kind}".encode(), [(name, f" {name}=".encode()) for name in names]


def _without_empty(node: ast.JoinedStr) -> list[ast.expr]:
    """Return the parts of an f-string, with neighbouring texts in one: versions of Python split them differently."""
    parts: list[ast.expr] = []
    for value in node.values:
        inside = _without_empty(value) if isinstance(value, ast.JoinedStr) else [value]
        for part in inside:
            last = parts[-1] if parts else None
            if isinstance(part, ast.Constant) and isinstance(last, ast.Constant):
                parts[-1] = ast.Constant(str(last.value) + str(part.value))
            elif not (isinstance(part, ast.Constant) and part.value == ""):
                parts.append(part)
    return parts


def _constant(value: object) -> bytes:
    """Return the type and the value of a constant, in bytes that need no end mark."""
    if isinstance(value, str):
        content = value.encode("utf-8", "surrogatepass")
    elif isinstance(value, bytes):
        content = value
    elif isinstance(value, int) and not isinstance(value, bool):
        content = hex(value).encode()  # `repr` refuses thousands of digits
    else:
        content = repr(value).encode()  # shortest spelling of floats; True, None, Ellipsis
    return f"{type(value).__name__}:{len(content)}:".encode() + content
