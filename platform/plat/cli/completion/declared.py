"""Read the verbs, their options and their arguments from the source of the verbs.

Importing a verb takes up to 0.2 s, because it brings what the verb works with. Parsing its file takes milliseconds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CLI = Path(__file__).parent.parent
OF_EVERY_VERB = {"-v": "Print more, and tracebacks.", "--verbose": "Print more, and tracebacks."}
OF_READERS = {"--allow-import": "Allow trainers MODULE:ATTRIBUTE; runs their code."}
HELP = {"-h": "Show this message and exit.", "--help": "Show this message and exit."}


@dataclass
class Command:
    """A verb. `options`: name -> help; `takes`: name of an option -> metavar of its value; `arguments`: metavars."""

    options: dict[str, str] = field(default_factory=dict)
    takes: dict[str, str] = field(default_factory=dict)
    arguments: list[str] = field(default_factory=list)


def verbs() -> dict[str, str]:
    """Return verb or group of verbs -> its line in `plat --help`."""
    names = _names(_parsed("verb_list"))
    return {**ast.literal_eval(names["VERBS"]), **ast.literal_eval(names["GROUPS"])}


def groups() -> set[str]:
    return set(ast.literal_eval(_names(_parsed("verb_list"))["GROUPS"]))


def subcommands(group: str) -> dict[str, str]:
    """Return the verbs of a group, such as `list` of `plat base`, and the function of each."""
    calls = [node for node in ast.walk(_parsed(f"verbs.{group}")) if isinstance(node, ast.Call)]
    named = [
        call for call in calls if isinstance(call.func, ast.Call) and getattr(call.func.func, "attr", "") == "command"
    ]
    return {_constant(call.func.args[0]): call.args[0].id for call in named}  # type: ignore[attr-defined]


def command(verb: str, function: str = "") -> Command:
    """Return what a verb takes; `function` names that of a subcommand."""
    module = f"verbs.{'import_' if verb == 'import' else verb}"
    tree = _parsed(module)
    called = function or ast.literal_eval(_names(_parsed("verb_list"))["FUNCTIONS"]).get(verb, verb)
    definition = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == called)
    found = Command()
    for argument in definition.args.args:
        _add(found, argument.arg, _meaning(argument.annotation, module, tree))
    readers = any(isinstance(node, ast.Call) and node.keywords for node in definition.decorator_list)
    found.options |= {**(OF_READERS if readers else {}), **OF_EVERY_VERB, **HELP}
    return found


def _add(found: Command, name: str, annotation: ast.expr | None) -> None:
    """Add the parameter that `Annotated[TYPE, typer.Option(...)]` declares."""
    if not isinstance(annotation, ast.Subscript) or not isinstance(annotation.slice, ast.Tuple):
        return
    kind, declared = annotation.slice.elts[:2]
    if not isinstance(declared, ast.Call):
        return
    facts = {keyword.arg: _constant(keyword.value) for keyword in declared.keywords}
    if getattr(declared.func, "attr", "") == "Argument":
        found.arguments.append(str(facts.get("metavar") or name.upper()))
        return
    for text in map(_constant, declared.args):
        for option in str(text).split("/"):
            found.options[option] = str(facts.get("help") or "")
            if "bool" not in ast.unparse(kind):
                found.takes[option] = str(facts.get("metavar") or "")


def _meaning(annotation: ast.expr | None, module: str, tree: ast.Module) -> ast.expr | None:
    """Return an annotation; a name is replaced by what its module, or the module that it is imported from, assigns."""
    while isinstance(annotation, ast.Name):
        name = annotation.id
        if name in _names(tree):
            return _names(tree)[name]
        source = next((source for source, names in _imports(tree) if name in names), "")
        if not source.startswith("plat.cli."):
            return annotation
        module = source.removeprefix("plat.cli.")
        tree = _parsed(module)
    return annotation


def _imports(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            yield node.module or "", [alias.name for alias in node.names]


def _names(tree: ast.Module) -> dict[str, ast.expr]:
    """Return the names that a module assigns, and their values."""
    return {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _constant(node: ast.expr) -> Any:
    return node.value if isinstance(node, ast.Constant) else None


def _parsed(module: str) -> ast.Module:
    """Return the parsed source of a module below `plat.cli`."""
    if module not in _KNOWN:
        _KNOWN[module] = ast.parse(CLI.joinpath(*module.split(".")).with_suffix(".py").read_bytes())
    return _KNOWN[module]


_KNOWN: dict[str, ast.Module] = {}
