"""The value of a small Python expression over a list `x`, computed without running it as Python.

Allowed are whole numbers, `x`, + - *, max, min, len, indices and slices, lists, comprehensions over one list, and
conditional expressions with `in` and comparisons. Anything else is no program. The values are those of Python; programs
that take too many steps or make large values fail as if they had raised an error.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from threading import Lock
from typing import Any, TypeAlias

MOST_CHARACTERS, MOST_STEPS = 300, 2000
LARGEST, LONGEST = 10**6, 100  # a number, and a list
_PARSING = Lock()
Value: TypeAlias = "int | bool | list[Any]"

_FUNCTIONS: dict[str, Callable[..., Any]] = {"max": max, "min": min, "len": len}
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, many: one in many,
    ast.NotIn: lambda one, many: one not in many,
}


class _Failed(Exception):
    """The program is none, or raises an error."""


@lru_cache(maxsize=4096)
def parse(text: str) -> ast.expr | None:
    """Return the expression of a program such as "return max ( x )", or None if it is none. Accepts any text."""
    words = text.strip()
    words = words.removeprefix("return") if words.startswith(("return ", "return(", "return[")) else words
    if len(words) > MOST_CHARACTERS or not words.isascii():
        return None
    try:
        with _PARSING, warnings.catch_warnings():  # which belong to the process, not to the thread
            warnings.simplefilter("ignore")
            tree = ast.parse(words.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return tree if _is_allowed(tree, {"x"}) else None


def _is_allowed(node: ast.AST, names: set[str]) -> bool:
    """Return True if the expression has only what the module allows; `names` are the variables that exist."""
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Call):
        known = isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS
        return known and bool(node.args) and not node.keywords and all(_is_allowed(part, names) for part in node.args)
    if isinstance(node, ast.ListComp):
        (first, *further) = node.generators
        if further or first.ifs or first.is_async or not isinstance(first.target, ast.Name):
            return False
        return _is_allowed(first.iter, names) and _is_allowed(node.elt, names | {first.target.id})
    if isinstance(node, ast.BinOp):
        return type(node.op) in (ast.Add, ast.Sub, ast.Mult) and all(
            _is_allowed(p, names) for p in (node.left, node.right)
        )
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and _is_allowed(node.operand, names)
    if isinstance(node, ast.Compare):
        parts = [node.left, *node.comparators]
        return all(type(op) in _OPERATORS for op in node.ops) and all(_is_allowed(part, names) for part in parts)
    if isinstance(node, ast.IfExp | ast.List | ast.Subscript | ast.Slice):
        return all(_is_allowed(child, names) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.Load))
    return False


def run(program: ast.expr, x: Sequence[int]) -> Value | None:
    """Return the value of a parsed program for the list `x`; None if it raises an error or takes too much."""
    try:
        value: Value = _Run().value(program, {"x": list(x)})
        return value
    except (_Failed, TypeError, ValueError, IndexError, OverflowError, RecursionError):
        return None


class _Run:
    """One run of a program; counts its steps."""

    def __init__(self) -> None:
        self.steps = 0

    def _count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > MOST_STEPS:
            raise _Failed

    def value(self, node: ast.AST, names: dict[str, Any]) -> Any:
        self._count(1)
        result = self._value(node, names)
        if (isinstance(result, int) and abs(result) > LARGEST) or (isinstance(result, list) and len(result) > LONGEST):
            raise _Failed
        return result

    def _value(self, node: ast.AST, names: dict[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return names[node.id]
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)
            arguments = [self.value(part, names) for part in node.args]
            self._count(sum(map(_size, arguments)))
            return _FUNCTIONS[node.func.id](*arguments)
        if isinstance(node, ast.ListComp):
            return self._comprehension(node, names)
        if isinstance(node, ast.BinOp):
            return self._operation(node, names)
        if isinstance(node, ast.UnaryOp):
            return -self.value(node.operand, names)
        if isinstance(node, ast.Compare):
            return self._comparison(node, names)
        if isinstance(node, ast.IfExp):
            return self.value(node.body if self.value(node.test, names) else node.orelse, names)
        if isinstance(node, ast.List):
            return [self.value(part, names) for part in node.elts]
        if isinstance(node, ast.Slice):
            return slice(*(part and self.value(part, names) for part in (node.lower, node.upper, node.step)))
        assert isinstance(node, ast.Subscript)
        return self.value(node.value, names)[self._value(node.slice, names)]

    def _operation(self, node: ast.BinOp, names: dict[str, Any]) -> Any:
        left, right = self.value(node.left, names), self.value(node.right, names)
        for one, other in ((left, right), (right, left)):  # a repeated list must not fill the memory first
            if isinstance(one, list) and isinstance(other, int) and len(one) * max(0, other) > LONGEST:
                raise _Failed
        return _OPERATORS[type(node.op)](left, right)

    def _comprehension(self, node: ast.ListComp, names: dict[str, Any]) -> list[Any]:
        (generator,) = node.generators
        items = self.value(generator.iter, names)
        if not isinstance(items, list):
            raise _Failed
        target = generator.target
        assert isinstance(target, ast.Name)
        return [self.value(node.elt, names | {target.id: item}) for item in items]

    def _comparison(self, node: ast.Compare, names: dict[str, Any]) -> bool:
        left = self.value(node.left, names)
        for op, part in zip(node.ops, node.comparators, strict=True):
            right = self.value(part, names)
            self._count(_size(left) + _size(right))  # lists are compared item by item
            if not _OPERATORS[type(op)](left, right):
                return False
            left = right
        return True


def _size(value: Any) -> int:
    """Return the number of items in a value, those of lists in it included, as far as MOST_STEPS."""
    size, waiting = 0, [value]
    while waiting and size <= MOST_STEPS:
        size += 1
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
    return size


def equal(value: Value | None, wanted: int | list[int]) -> bool:
    """Return True if a value is the wanted number or list of numbers; a bool is no number."""
    if isinstance(wanted, list):
        return isinstance(value, list) and len(value) == len(wanted) and all(map(equal, value, wanted))
    return type(value) is int and value == wanted
