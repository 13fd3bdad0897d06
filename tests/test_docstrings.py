"""A caller learns from the docstring which of plat's errors to expect."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from plat import errors

ROOT = Path(__file__).parent.parent
ERRORS = {name for name, value in vars(errors).items() if isinstance(value, type) and issubclass(value, Exception)}
ERRORS |= {"BadEnvironment"}
VERBS = [ROOT / "platform" / name / "verbs" for name in ("plat/cli", "plat_rl")]  # their docstrings are help texts
FILES = [path for folder in ("platform", "analysis", "envs") for path in sorted((ROOT / folder).rglob("*.py"))]


def raised(function: ast.AST) -> Iterator[str]:
    """The names of the errors that the body itself raises, not those of functions inside it."""
    for node in ast.iter_child_nodes(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
            yield node.exc.func.id
        if not isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            yield from raised(node)


def unnamed(node: ast.Module | ast.ClassDef, above: str = "") -> Iterator[tuple[int, str, str]]:
    for item in node.body:
        if isinstance(item, ast.ClassDef):
            yield from unnamed(item, ast.get_docstring(item) or "")
        elif isinstance(item, ast.FunctionDef) and not item.name.startswith("_"):
            text = ast.get_docstring(item)
            for name in sorted(set(raised(item)) & ERRORS) if text else ():
                if name not in f"{text} {above}":
                    yield item.lineno, item.name, name


def test_a_public_function_names_the_errors_that_it_raises() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line} {function} raises {name}"
        for path in FILES
        if path.parent not in VERBS
        for line, function, name in unnamed(ast.parse(path.read_text()))
    ]
    assert not found, "\n".join(["say so in the docstring: `Raises ERROR if ...`", *found])


def test_the_checker_sees_a_missing_name() -> None:
    text = 'def f(x):\n    """Do."""\n    if x:\n        raise SpecError("a")\n'
    assert list(unnamed(ast.parse(text))) == [(1, "f", "SpecError")]
    assert not list(unnamed(ast.parse(text.replace("Do.", "Do. Raises SpecError if x."))))
