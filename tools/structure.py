"""Measure how this repository is built, and compare it with another commit.

    python -m tools.structure [--against COMMIT] [--no-walks]

Sizes are counted by AST and tokens, without importing the code. The walks run commands of each checkout itself, in new
folders, and count the files of plat in which a function is called (`tools.walks`).
"""

from __future__ import annotations

import argparse
import ast
import io
import statistics
import subprocess
import sys
import tarfile
import tempfile
import tokenize
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from tools.walks import WALKS, files_called

ROOMS = ("platform", "analysis", "envs", "slurm", "tools", "benchmarks")
LONG, MANY = 50, 5  # lines of a function, and its parameters, above which it is counted
NOT_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}
UNNAMED = {"__init__", "__main__"}  # every package may have these
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True)
class File:
    """The counts of one source file."""

    path: Path
    lines: int
    code: int  # lines that are not blank, comment or docstring
    long: int  # functions of more than LONG lines
    many: int  # functions of more than MANY parameters
    public: int  # functions and methods without a leading underscore, outside of other functions
    documented: int  # of these, with a docstring


def measure(path: Path) -> File:
    """Count the lines and functions of a source file (see `File`). Raises SyntaxError if it is not valid Python."""
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text, str(path))
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    public = [node for node in outside_functions(tree) if not node.name.startswith("_")]
    return File(
        path=path,
        lines=len(text.splitlines()),
        code=code_lines(text, tree),
        long=sum((node.end_lineno or node.lineno) - node.lineno >= LONG for node in functions),
        many=sum(parameters(node) > MANY for node in functions),
        public=len(public),
        documented=sum(ast.get_docstring(node) is not None for node in public),
    )


def code_lines(text: str, tree: ast.Module) -> int:
    """Count the lines that hold a token of code; docstrings and comments are none."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NOT_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(tree):
        if isinstance(node, Documented) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def outside_functions(node: ast.AST) -> list[Function]:
    """Return the functions and methods below `node` that lie in no other function."""
    found: list[Function] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            found.append(child)
        else:
            found += outside_functions(child)
    return found


def parameters(function: Function) -> int:
    """Count the parameters of a function, `*args` and `**kwargs` as one each, `self` and `cls` not."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args]
    first = bool(named) and named[0].arg in ("self", "cls")
    return len(named) - first + len(arguments.kwonlyargs) + bool(arguments.vararg) + bool(arguments.kwarg)


def sizes(root: Path) -> dict[str, str]:
    """Return the sizes of the checkout in `root`: label -> printed value."""
    by_room = {room: [measure(path) for path in sorted((root / room).rglob("*.py"))] for room in ROOMS}
    files = [file for room in by_room.values() for file in room]
    names = Counter(file.path.stem for file in files if file.path.stem not in UNNAMED)
    shared = {name: count for name, count in names.items() if count > 1}
    largest = max(files, key=lambda file: file.lines)
    public = sum(file.public for file in files)
    table = {f"lines of {room}": f"{sum(file.lines for file in by_room[room]):,}" for room in ROOMS}
    return table | {
        "lines without tests": f"{sum(file.lines for file in files):,}",
        "lines of code": f"{sum(file.code for file in files):,}",
        "files": f"{len(files):,}",
        "median file": f"{statistics.median(file.lines for file in files):g}",
        "largest file": f"{largest.lines:,} ({largest.path.name})",
        "shared base names": f"{len(shared)} in {sum(shared.values())} files",
        f"functions over {LONG} lines": f"{sum(file.long for file in files)}",
        f"functions over {MANY} parameters": f"{sum(file.many for file in files)}",
        "public with docstring": f"{sum(file.documented for file in files) / max(public, 1):.1%} of {public:,}",
    }


def walks(root: Path) -> dict[str, str]:
    """Run every walk of `tools.walks` in the checkout `root`; return label -> number of files called, or "failed"."""
    table = {}
    for name in WALKS:
        try:
            table[f"files called: {name}"] = str(len(files_called(root, name)))
        except subprocess.SubprocessError as error:
            print(f"{root}: {name}: {error}", file=sys.stderr)
            table[f"files called: {name}"] = "failed"
    return table


def extract(commit: str, folder: Path) -> None:
    """Write the files of a commit of this repository into the folder. CalledProcessError for an unknown commit."""
    archive = subprocess.run(["git", "archive", commit], check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")


def render(columns: dict[str, dict[str, str]]) -> str:
    """Return the table as text: a line for each label, a column for each checkout."""
    labels = next(iter(columns.values()))
    lines = [f"{'':36}" + "".join(f"{name:>24}" for name in columns)]
    lines += [f"{label:36}" + "".join(f"{column[label]:>24}" for column in columns.values()) for label in labels]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure how this repository is built.")
    parser.add_argument("--against", metavar="COMMIT", help="measure this commit as well")
    parser.add_argument("--no-walks", action="store_true", help="count sizes only; run no command")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        roots = {"working tree": Path.cwd()}
        if arguments.against:
            roots[arguments.against] = Path(temporary)
            extract(arguments.against, roots[arguments.against])
        print(render({name: sizes(root) | ({} if arguments.no_walks else walks(root)) for name, root in roots.items()}))
    if not arguments.no_walks:
        print("\nA walk counts the files of plat in which a function is called while the command runs, in any process.")
        print("Files that are only imported, and calls made by an import, do not count.")


if __name__ == "__main__":
    main()
