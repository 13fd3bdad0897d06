"""What a Python file says about folders: those in which Python finds modules, and the config folder of a Hydra app."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from plat.plugins.python_code import python_code

_LITERAL_CALLS = "abspath realpath normpath expanduser str Path resolve absolute as_posix fspath".split()
_TARGET = re.compile(rb"^\s*[\"']?_target_[\"']?\s*:\s*[\"']?([A-Za-z_][\w.]*)", re.MULTILINE)
# Folders below a config folder that hold outputs. Names with a dot, such as Hydra's own .hydra, are skipped as well.
_OUTPUTS = ("outputs", "multirun", "plat-home", "wandb", "mlruns", "lightning_logs", "node_modules", "__pycache__")


def added_folders(content: bytes, file: Path, place: Path) -> list[Path]:
    """Return the folders that a file adds to `sys.path`, where it spells them out; relative ones are below `place`."""
    if b"sys.path" not in content:
        return []
    found = []
    for call in _calls(content):
        if isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "sys.path":
            values = call.args[-1:] if call.func.attr in ("insert", "append") else []
            if call.func.attr == "extend" and call.args and isinstance(call.args[0], ast.List | ast.Tuple):
                values = call.args[0].elts
            found += [
                Path(os.path.normpath(place / text)) for value in values if (text := _text(value, file)) is not None
            ]
    return [folder for folder in found if folder.is_dir()]


def spelled_files(content: bytes, places: Iterable[Path]) -> list[Path]:
    """Return scripts that a file names as a text, such as `runpy.run_path("part.py")`, where they are in `places`.

    Also the modules of `import_module("name")`, if a file of that name is there.
    """
    if not re.search(rb"\.(py|sh)[\"']|import_module", content):
        return []
    texts: dict[str, None] = {}
    for call in _calls(content):
        nodes = [node for part in (*call.args, *(word.value for word in call.keywords)) for node in ast.walk(part)]
        texts |= {node.value: None for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    named = [text for text in texts if re.fullmatch(r"[\w./-]+\.(py|sh)", text)]
    if b"import_module" in content:
        named += [f"{text.replace('.', '/')}.py" for text in texts if re.fullmatch(r"[A-Za-z_][\w.]*", text)]
    paths = (Path(os.path.normpath(place / text)) for text in named for place in places)
    return [path for path in dict.fromkeys(paths) if path.is_file()]


def hydra_files(content: bytes, file: Path) -> list[Path]:
    """Return the YAML files of the folders that a file gives Hydra as `config_path`, sorted."""
    if b"config_path" not in content or b"hydra" not in content:
        return []
    found: dict[Path, None] = {}
    for call in _calls(content):
        for keyword in call.keywords:
            name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
            if keyword.arg == "config_path" and name in ("main", "initialize"):
                text = _text(keyword.value, file)
                if text is not None:
                    found |= dict.fromkeys(_yaml_files(Path(os.path.normpath(file.parent / text))))
    return sorted(found)


def targets(files: Iterable[Path]) -> Iterator[str]:
    """Yield the dotted names that `_target_` has in these files."""
    for file in files:
        yield from (match.decode("ascii", "ignore") for match in _TARGET.findall(file.read_bytes()))


def _yaml_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".") and name not in _OUTPUTS]
        for name in names:
            path = Path(parent, name)
            # an experiment file beside a Hydra app is none of its configs: a comment in it makes no new runs
            if path.suffix in (".yaml", ".yml") and b"script.command" not in path.read_bytes():
                yield path


@lru_cache(maxsize=1024)
def _calls(content: bytes) -> tuple[ast.Call, ...]:
    tree = python_code(content).tree
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.Call)) if tree is not None else ()


def _text(node: ast.expr, file: Path) -> str | None:
    """Return the path that an expression of literals and `__file__` spells, None for any other expression."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else None
    if isinstance(node, ast.Name):
        return str(file) if node.id == "__file__" else None
    if isinstance(node, ast.Attribute) and node.attr == "parent":
        return None if (text := _text(node.value, file)) is None else os.path.dirname(text)
    if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Attribute) and node.value.attr == "parents":
        text, count = _text(node.value.value, file), getattr(node.slice, "value", None)
        return (
            str(Path(text).parents[count])
            if text and isinstance(count, int) and count < len(Path(text).parents)
            else None
        )
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _joined([node.left, node.right], file)
    if isinstance(node, ast.Call):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        given = node.args or ([node.func.value] if isinstance(node.func, ast.Attribute) else [])
        if name in ("join", "joinpath"):
            is_method = name == "joinpath" and isinstance(node.func, ast.Attribute)
            return _joined([node.func.value, *given] if is_method else given, file)  # type: ignore[attr-defined]
        if name == "dirname" or name in _LITERAL_CALLS:
            text = _text(given[0], file) if len(given) == 1 else None
            return os.path.dirname(text) if text is not None and name == "dirname" else text
    return None


def _joined(nodes: Iterable[ast.expr], file: Path) -> str | None:
    texts = [_text(node, file) for node in nodes]
    return None if None in texts else os.path.join("", *(text for text in texts if text is not None))
