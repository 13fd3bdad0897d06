"""Find the files of an import and the values that their paths, and a file beside each, give to their runs."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from plat.app.recorded.foreign_run import flat_values, text_values
from plat.errors import SpecError
from plat.plain_files import parse_json, parse_yaml, read_text
from plat.units import counted

CONFIGS = ("config.json", "config.yaml", "hparams.yaml", ".hydra/config.yaml")
KEY = r"[A-Za-z][\w.]*"
# A value ends at a separator that another `key=` follows: `lr=0.1-seed=2`, `lr=0.1,seed=2`, `lr=0.1_weight_decay=0`.
PAIR = re.compile(rf"({KEY})=(.*?)(?=[-_,;& ]+{KEY}=|$)")
SEED = re.compile(r"seed[-_]?(\d+)", re.IGNORECASE)  # a piece such as `seed3`
NUMBER_TEXT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")  # YAML 1.1, which others write, reads 1e-3 as text
PLACE = re.compile(r"\{([^{}]*)\}")  # in a pattern of paths
LINE = re.compile(r"\s*([^:#]+?)\s*:\s*(.*?)\s*")  # `key : value`


@dataclass(frozen=True)
class Found:
    """A file of a source.

    texts   values that its path gives, as they are written
    values  values that its path and the files beside it give
    """

    path: Path
    texts: Mapping[str, str]
    values: Mapping[str, Any]


def find(
    sources: Sequence[str], suffixes: Sequence[str], pattern: str = "", beside: str = ""
) -> tuple[list[Found], list[str]]:
    """Return the files of the sources in the order of their paths, and sentences on files that were left out.

    suffixes  what files in a folder are read
    pattern   a path below each source with `{name}` where a value stands; "": files give `key=value` pieces
    beside    the name of a file with values beside each of them; "": one of CONFIGS, if it is there

    Raises SpecError if a source does not exist, has no file, or none that fits the pattern, if the pattern is none,
    or if a file beside cannot be read.
    """
    matching = _matcher(pattern) if pattern else None
    found, others = [], []
    seen: set[Path] = set()
    for source in map(Path, sources):
        for path in _files(source, suffixes if matching is None else ()):
            if path.resolve() in seen:
                continue
            seen.add(path.resolve())
            texts = texts_of(_bare(path, suffixes))
            if matching is not None:
                named = matching(path.relative_to(source) if source.is_dir() else path)
                if named is None:
                    others.append(path)
                    continue
                texts = {**texts, **named}
            found.append(Found(path, texts, _beside(path.parent, beside) | text_values(texts)))
    if matching is not None and not found:
        first = others[0].relative_to(sources[0]) if others and Path(sources[0]).is_dir() else sources[0]
        what = f"no file fits the pattern {pattern!r}; the first file is {first}"
        raise SpecError(what, where="--path", fix="write the path below the source, with {name} for each value")
    if beside and not any((each.path.parent / beside).is_file() for each in found):
        where = str(found[0].path.parent / beside)
        raise SpecError("there is no such file", where=where, fix="--beside names a file beside each file of metrics")
    missed = [path for path in others if path.name.lower().endswith(tuple(suffixes)) and path.name != beside]
    what = f"{counted(len(missed), 'file')} left out, because the pattern does not fit"
    notes = [f"{what}, such as {missed[0]}"] if missed else []
    lonely = [each.path for each in found if beside and not (each.path.parent / beside).is_file()]
    notes += [f"{counted(len(lonely), 'file')} without {beside} beside, such as {lonely[0]}"] if lonely else []
    return found, notes


def _bare(path: Path, suffixes: Sequence[str]) -> PurePath:
    """Return a path without its known suffix: `lr=0.1.csv.gz` and `lr=0.1` are `lr=0.1`."""
    known = max((suffix for suffix in suffixes if path.name.lower().endswith(suffix)), key=len, default="")
    return path.with_name(path.name.removesuffix(path.name[-len(known) :])) if known else path


def _files(source: Path, suffixes: Sequence[str]) -> list[Path]:
    fix = "name files, or a folder of them"
    if not source.exists():
        raise SpecError("there is no such file or folder", where=str(source), fix=fix)
    if not source.is_dir():
        return [source]
    known = {*CONFIGS, *(PurePath(name).name for name in CONFIGS)}
    found = sorted(path for path in source.rglob("*") if path.is_file() and path.name not in known)
    if suffixes:
        found = [path for path in found if path.name.lower().endswith(tuple(suffixes))]
    if not found:
        kinds = ", ".join(f"*{suffix}" for suffix in suffixes) or "any file"
        raise SpecError(f"the folder has no such file: {kinds}", where=str(source), fix=fix)
    return found


def _matcher(pattern: str) -> Callable[[PurePath], dict[str, str] | None]:
    """Return a function from a path to the values at the places of a pattern, None for a path that does not fit."""
    names = PLACE.findall(pattern)
    if re.search(r"[{}]", PLACE.sub("", pattern)):
        raise SpecError(f"a brace of the pattern {pattern!r} is not closed", where="--path", fix="write {name}")
    if not names:
        fix = "write {name} where a value stands: --path '{algorithm}/{task}.csv'"
        raise SpecError(f"the pattern {pattern!r} names no value", where="--path", fix=fix)
    for name in names:
        if not re.fullmatch(rf"{KEY}|_\w*", name):
            fix = "name each value: {size}; a piece that is no value: {_}"
            raise SpecError(f"a piece of the pattern has no name: {{{name}}}", where="--path", fix=fix)
    if twice := [name for name in names if names.count(name) > 1 and not name.startswith("_")]:
        raise SpecError(f"the pattern names {twice[0]!r} twice", where="--path", fix="choose two names")
    parts = PLACE.split(pattern)  # literal, name, literal, ...
    if "*" in "".join(parts[::2]):
        fix = "write {_} where any text may stand that is no value"
        raise SpecError("a pattern of paths knows no *", where="--path", fix=fix)
    short, long = (
        re.compile("".join(piece if odd % 2 else re.escape(part) for odd, part in enumerate(parts)))
        for piece in ("([^/]+?)", "([^/]+)")
    )

    def match(path: PurePath) -> dict[str, str] | None:
        matched, other = short.fullmatch(path.as_posix()), long.fullmatch(path.as_posix())
        if matched and other and matched.groups() != other.groups():
            ways = " or ".join(
                ", ".join(map("=".join, zip(names, found.groups(), strict=True))) for found in (matched, other)
            )
            fix = "write more of the path into the pattern, or rename the file"
            raise SpecError(f"{path} fits the pattern in two ways: {ways}", where="--path", fix=fix)
        pairs = zip(names, matched.groups(), strict=True) if matched else ()
        return {name: text for name, text in pairs if not name.startswith("_")} if matched else None

    return match


def texts_of(path: PurePath) -> dict[str, str]:
    """Return the values in the `key=value` pieces of a path as they are written."""
    seeds = [("seed", match[1]) for piece in path.parts if (match := SEED.fullmatch(piece))]
    return dict([*seeds, *(pair for piece in path.parts for pair in PAIR.findall(piece))])


def values_of(path: PurePath, folder: Path) -> dict[str, Any]:
    """Return the values of a run: those of config files in `folder`, and over them those in the pieces of `path`.

    Raises SpecError if a config file cannot be read.
    """
    return _beside(folder, "") | text_values(texts_of(path))


def _beside(folder: Path, name: str) -> dict[str, Any]:
    """Return the values of the file of this name in a folder, or of those of CONFIGS, that are there."""
    found: dict[str, Any] = {}
    for each in [name] if name else CONFIGS:
        if (folder / each).is_file():
            found |= _of_config(folder / each, with_lines=bool(name))
    return found


def _of_config(path: Path, with_lines: bool) -> dict[str, Any]:
    """Return dotted key -> value of JSON or YAML; `with_lines`: also of lines `key : value` that are neither."""
    try:
        text = read_text(path)
        content = _parsed(text, path.suffix == ".json")
        if with_lines and not isinstance(content, dict) and not text.lstrip().startswith(("{", "[")):
            lines = filter(None, map(LINE.fullmatch, text.splitlines()))
            return text_values({match[1]: match[2] for match in lines})
        if isinstance(content, ValueError):
            raise content
    except (OSError, ValueError) as error:
        raise SpecError(f"the config cannot be read: {error}", where=str(path), fix="correct or remove it") from None
    if not isinstance(content, dict):
        what = f"the config is no mapping: {json.dumps(content, default=str):.60}"
        raise SpecError(what, where=str(path), fix="correct or remove it")
    values = flat_values(content)
    numbers = {key: text for key, text in values.items() if isinstance(text, str) and NUMBER_TEXT.fullmatch(text)}
    return values | text_values(numbers)


def _parsed(text: str, is_json: bool) -> Any:
    """Return the value of a text, or the ValueError that says why it has none. JSON may have another suffix."""
    try:
        if is_json or text.lstrip().startswith("{"):
            return parse_json(text)
        return parse_yaml(text)
    except ValueError as error:
        return error


def join_of(path: Path) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """Return a function that adds, to the values of a run, those of the row of a CSV file that has them.

    Columns that the run has tell which row is meant; the others are further values.

    Raises SpecError if the file cannot be read. The function raises SpecError if no column is a value of the run, if
    no row or several rows have its values.
    """
    try:
        rows = list(csv.DictReader(io.StringIO(read_text(path).removeprefix("\ufeff"))))
    except (OSError, ValueError, csv.Error) as error:
        raise SpecError(
            f"the file cannot be read: {error}", where=str(path), fix="name a CSV file: --join FILE"
        ) from None
    if not rows or any(None in row or None in row.values() for row in rows):
        fix = "write a header line, and lines with as many cells"
        raise SpecError("it is no table", where=str(path), fix=fix)
    header = next(csv.reader(io.StringIO(read_text(path).removeprefix("\ufeff"))))
    if twice := [name for name in header if header.count(name) > 1]:
        raise SpecError(f"two columns are called {twice[0]!r}", where=str(path), fix="rename one")
    typed = [text_values(row) for row in rows]
    by_values: dict[tuple[str, ...], dict[str, list[dict[str, Any]]]] = {}

    def joined(values: Mapping[str, Any]) -> dict[str, Any]:
        shared = tuple(key for key in typed[0] if key in values)
        if not shared:
            columns = ", ".join(typed[0])
            raise SpecError(f"no column is a value of the runs: {columns}", where=str(path), fix="name one as they do")
        if shared not in by_values:
            groups = by_values.setdefault(shared, {})
            for row in typed:
                groups.setdefault(repr([row[key] for key in shared]), []).append(row)
        found = by_values[shared].get(repr([values[key] for key in shared]), [])
        if len(found) != 1:
            shown = ", ".join(f"{key}={values[key]}" for key in shared)
            what = f"{counted(len(found), 'row')} with {shown}" if found else f"there is no row with {shown}"
            raise SpecError(what, where=str(path), fix="write one row for each run, or for each value of an axis")
        return {**values, **found[0]}

    return joined
