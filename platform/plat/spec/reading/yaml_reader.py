"""Read YAML files as plain data with the position (line and column) of every key and value.

Data are dict (string keys, in file order), list, str, int, float, bool and None. Scalars follow YAML 1.2's core schema:
`on`, `off`, `no` and `2024-01-01` are strings, and `1e-3` is a float. Anchors, aliases and merge keys work. Duplicate
keys, an alias inside its own anchor, and more than MAX_NODES expanded values raise SpecError, as does any bad file.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from plat.characters import LARGEST, forbidden_character, is_too_large
from plat.errors import SpecError
from plat.plain_files import open_regular
from plat.spec.reading.yaml_scalar import scalar

MAX_BYTES = 1 << 20
MAX_NODES = 100_000  # after aliases are expanded
MAX_DEPTH = 50

Key = str | int
KeyPath = tuple[Key, ...]


@dataclass(frozen=True)
class Document:
    """The data of a file, and the position (line, column from 1) of every value and key, by its path from the root."""

    path: Path
    data: Any
    values: dict[KeyPath, tuple[int, int]] = field(repr=False)
    keys: dict[KeyPath, tuple[int, int]] = field(repr=False)

    def where(self, *path: Key) -> str:
        """Return `file:line:column` of the value at this path, or of the nearest enclosing value."""
        return self._spell(self.values, path)

    def where_key(self, *path: Key) -> str:
        """Return `file:line:column` of the key at this path, or of the value for a list item."""
        return self._spell(self.keys if path in self.keys else self.values, path)

    def error(self, what: str, *path: Key, fix: str) -> SpecError:
        """Return a SpecError at the value at this path."""
        return SpecError(what, where=self.where(*path), fix=fix)

    def _spell(self, marks: dict[KeyPath, tuple[int, int]], path: KeyPath) -> str:
        while path and path not in marks:
            path = path[:-1]
        line, column = marks.get(path, (1, 1))
        return f"{self.path}:{line}:{column}"


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's composer. `resolve` marks scalars without an explicit tag, because `yaml_scalar` decides their type."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)

    def fetch_more_tokens(self) -> None:
        super().fetch_more_tokens()
        if self.flow_level + len(self.indents) > MAX_DEPTH + 1:  # parsing time grows as the square of the depth
            raise RecursionError

    def resolve(self, kind: type, value: Any, implicit: Any) -> str:
        return "plain" if kind is ScalarNode and implicit[0] else "default"


def read(path: str | Path) -> Document:
    """Read one YAML file. Raises SpecError if it cannot be read or is not one well-formed document."""
    path = Path(path)
    return parse(_text(path), path)


def parse(text: str, path: Path) -> Document:
    """Read YAML from a string. Raises SpecError, with a position in `path`, if it is not one well-formed document."""
    try:
        root = _composed(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else str(path)
        what = " ".join(filter(None, [error.context, error.problem]))
        tab = "\\t" in what or "tab" in what
        fix = "indent with spaces, not tabs" if tab else "check quotes, brackets and indentation there"
        raise SpecError(f"not valid YAML: {what}", where=where, fix=fix) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        raise SpecError(
            f"a character that YAML does not allow (U+{int(error.character):04X})",
            where=f"{path}:{line}:{column}",
            fix="remove it",
        ) from None
    except RecursionError:
        raise SpecError("nested too deeply", where=str(path), fix=f"use at most {MAX_DEPTH} levels") from None
    if root is None:
        raise SpecError(
            "the file is empty", where=f"{path}:1:1", fix="write at least `title:`, and `matrix:` in an experiment file"
        )
    return _Builder(path).document(root)


@lru_cache(32)  # one command may read a paper's file once for each of its experiments
def _composed(text: str) -> Node | None:
    """Return the nodes of a text. They are cached and never changed: each document is built from them anew."""
    root: Node | None = _Loader(text).get_single_node()
    return root


def _text(path: Path) -> str:
    try:
        if path.is_dir():
            what = "this is a directory, not an experiment file"
            raise SpecError(what, where=str(path), fix="name a .yaml file in it")
        with open_regular(path) as file:
            raw = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise SpecError("no such file", where=str(path), fix=_like(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        what = f"cannot read the file: {reason}"
        raise SpecError(what, where=str(path), fix="check its name and permissions") from None
    if len(raw) > MAX_BYTES:
        raise SpecError("the file is larger than 1 MiB", where=str(path), fix="is this an experiment file?")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        column = error.start - raw.rfind(b"\n", 0, error.start)
        what = f"not UTF-8 text (byte 0x{raw[error.start]:02x})"
        raise SpecError(what, where=f"{path}:{line}:{column}", fix="save it as UTF-8") from None


def _like(path: Path) -> str:
    """Return the fix for a missing file: the most similar file beside it or below `experiments`."""
    from plat.suggest import nearest

    beside: list[Path] = []
    with contextlib.suppress(OSError):  # the folder may be missing or unreadable
        beside += [entry for entry in path.parent.iterdir() if entry.suffix in (".yaml", ".yml")]
    places = {entry.stem: entry for entry in [*sorted(Path("experiments").rglob("*.yaml")), *beside]}
    near = nearest(path.stem, places)
    if near is not None:
        return f"did you mean {str(places[near])!r}?"
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist"
    return "check the path; arguments with `=` are overrides"


class _Builder:
    """Turn the node graph into data, counting values so that an alias bomb raises SpecError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.values: dict[KeyPath, tuple[int, int]] = {}
        self.keys: dict[KeyPath, tuple[int, int]] = {}
        self.open: set[int] = set()

    def document(self, root: Node) -> Document:
        return Document(self.path, self._value(root, ()), self.values, self.keys)

    def _fail(self, what: str, node: Node, fix: str) -> SpecError:
        return SpecError(what, where=f"{self.path}:{node.start_mark.line + 1}:{node.start_mark.column + 1}", fix=fix)

    def _value(self, node: Node, path: KeyPath) -> Any:
        self.count += 1
        if self.count > MAX_NODES:
            raise self._fail(f"the file expands to more than {MAX_NODES:,} values", node, "use fewer aliases")
        if id(node) in self.open:
            raise self._fail("an anchor that contains its own alias", node, "write the value out")
        if len(path) > MAX_DEPTH:
            raise self._fail("nested too deeply", node, f"use at most {MAX_DEPTH} levels")
        self.values[path] = (node.start_mark.line + 1, node.start_mark.column + 1)
        if isinstance(node, ScalarNode):
            return self._scalar(node)
        if node.tag != "default":
            raise self._fail(f"the tag {_tag(node.tag)} is not supported", node, "remove the tag")
        self.open.add(id(node))
        try:
            if isinstance(node, SequenceNode):
                return [self._value(child, (*path, index)) for index, child in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            self.open.discard(id(node))

    def _mapping(self, node: Node, path: KeyPath) -> dict[str, Any]:
        assert isinstance(node, MappingNode)
        own: dict[str, tuple[Node, Node]] = {}
        merged: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode) or key.tag not in ("plain", "default"):
                raise self._fail("a key must be plain text", key, "write `key: value`")
            self._check_characters(key)
            if key.value == "<<" and key.tag == "plain":
                for name, pair in self._merged(value, 0).items():
                    merged.setdefault(name, pair)
            elif key.value in own:
                first = own[key.value][0].start_mark.line + 1
                raise self._fail(
                    f"the key {key.value!r} is given twice", key, f"remove one; the other is in line {first}"
                )
            else:
                own[key.value] = (key, value)
        result = {}
        for name, (key, value) in {**merged, **own}.items():
            self.keys[(*path, name)] = (key.start_mark.line + 1, key.start_mark.column + 1)
            result[name] = self._value(value, (*path, name))
        return result

    def _merged(self, node: Node, depth: int) -> dict[str, tuple[Node, Node]]:
        """Return the pairs of a merge key `<<: *anchor` (or of a list of anchors); earlier ones win."""
        self.count += 1
        if depth > MAX_DEPTH or self.count > MAX_NODES or id(node) in self.open:
            raise self._fail("merge keys that never end", node, "write the values out")
        pairs: dict[str, tuple[Node, Node]] = {}
        if isinstance(node, SequenceNode):
            for child in node.value:
                pairs = {**self._merged(child, depth + 1), **pairs}
            return pairs
        if not isinstance(node, MappingNode):
            raise self._fail("`<<` needs a mapping or a list of mappings", node, "point it at an anchor of a mapping")
        inner: dict[str, tuple[Node, Node]] = {}
        for key, value in node.value:
            if not isinstance(key, ScalarNode):
                raise self._fail("a key must be plain text", key, "write `key: value`")
            if key.value == "<<" and key.tag == "plain":
                inner = {**self._merged(value, depth + 1), **inner}
            else:
                pairs[key.value] = (key, value)
        return {**inner, **pairs}

    def _scalar(self, node: ScalarNode) -> Any:
        text = node.value
        self._check_characters(node)
        if node.tag in ("default", "tag:yaml.org,2002:str"):  # quoted, a block, or !!str
            return text
        if node.tag != "plain":
            raise self._fail(f"the tag {_tag(node.tag)} is not supported", node, "remove the tag")
        try:
            value = scalar(text)
        except ValueError:  # Python refuses to read thousands of digits
            value = LARGEST + 1
        if type(value) is int and is_too_large(value):
            raise self._fail("a whole number with too many digits (more than 64 bits)", node, "quote it if it is text")
        return value

    def _check_characters(self, node: ScalarNode) -> None:
        character = forbidden_character(node.value)
        if character is not None:
            raise self._fail(f"a character that plat does not accept ({character})", node, "remove it")


def _tag(tag: str) -> str:
    return tag.replace("tag:yaml.org,2002:", "!!")
