"""Find the defaults that a script's source gives its options, where the help text does not show them."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import replace

from plat.app.first_file.flags import NO_DEFAULT, Flag

DECLARES = ("add_argument", "option")  # of argparse and click


def with_defaults(flags: list[Flag], sources: Iterable[str]) -> list[Flag]:
    """Return the flags; one without a default gets the number or text that the sources write as its `default=`."""
    known = {name: default for source in sources for name, default in _declared(source)}
    return [
        replace(flag, default=known[flag.name])
        if flag.name in known and flag.default is None and (flag.negation or not flag.is_switch)
        else flag
        for flag in flags
    ]


def _declared(source: str) -> Iterator[tuple[str, str]]:
    """Yield (name without dashes, default) of every call such as `add_argument("--lr", default=0.01)`."""
    try:
        nodes = list(ast.walk(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in nodes:
        if not isinstance(node, ast.Call) or getattr(node.func, "attr", "") not in DECLARES:
            continue
        texts = [word.value for word in node.args if isinstance(word, ast.Constant) and isinstance(word.value, str)]
        for keyword in node.keywords:
            default = _literal(keyword.value) if keyword.arg == "default" else None
            if default not in (None, *NO_DEFAULT):
                yield from ((text[2:], str(default)) for text in texts if text.startswith("--"))


def _literal(node: ast.expr) -> str | None:
    """Return a number, a text or a bool of the source as a command spells it, None for anything else."""
    try:
        value = ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    return str(value) if isinstance(value, int | float | str) else None
