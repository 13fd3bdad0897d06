"""Placeholders in a word of a command: find them, and put values in their places.

    {lr}             the value, spelled as JSON, a text as it is: true, 0.1
    {lr!r}           the value as Python spells it: True, None, 'adam'
    {layers...}      a list, each item a word of its own
    {amp?--amp}      the text after `?` if the value is on, else nothing; it may have placeholders
    {!amp?--no-amp}  the text if the value is off: false, null, an empty text or list, or the text false, none or null
    {{ and }}        a brace

Anything else in braces stays as it is, such as the program of `awk`.
"""

from __future__ import annotations

import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from plat import script_log
from plat.errors import SpecError

_OPENING = re.compile(r"\{(!?)([A-Za-z_][\w.]*?)(\}|!r\}|\.\.\.\}|\?)")
Split = Callable[[str], list[str]]
_OFF = ("", "false", "none", "null")


@dataclass(frozen=True)
class Placeholder:
    """A placeholder: `form` is what stands behind the name, `inside` the text after `?` (only with this form)."""

    name: str
    form: str = ""
    inside: str = ""
    is_negated: bool = False


@lru_cache(maxsize=4096)
def parsed(word: str) -> tuple[str | Placeholder, ...]:
    """Return the texts and placeholders of a word in their order."""
    parts: list[str | Placeholder] = []
    text, at = "", 0
    while at < len(word):
        found, end = placeholder_at(word, at)
        if found is not None:
            parts += [text, found] if text else [found]
            text, at = "", end
        else:
            text += word[at]
            at += 2 if word[at : at + 2] in ("{{", "}}") else 1
    return (*parts, text) if text else tuple(parts)


def placeholder_at(word: str, at: int) -> tuple[Placeholder | None, int]:
    """Return the placeholder that begins at a position, and the position behind it; None if there is none."""
    match = _OPENING.match(word, at)
    if match is None or (match[1] and match[3] != "?"):
        return None, at
    if match[3] != "?":
        return Placeholder(match[2], match[3][:-1]), match.end()
    end = match.end()
    while end < len(word):
        if word[end] == "}":
            return Placeholder(match[2], "?", word[match.end() : end], bool(match[1])), end + 1
        _, behind = placeholder_at(word, end)
        end = max(behind, end + 1)
    return None, at


def names_in(word: str) -> Iterator[str]:
    """Yield the names of all placeholders of a word, also of those inside others."""
    for part in parsed(word):
        if isinstance(part, Placeholder):
            yield part.name
            yield from names_in(part.inside)


def is_on(value: Any) -> bool:
    """Return True if a placeholder with `?` stands for its text: 0 is a value, and on."""
    if isinstance(value, str):
        return value.lower() not in _OFF
    return value is not None and value is not False and value not in ([], {})


def spelled(value: Any) -> str:
    """Return a value as a word of a command: a text as it is, others as JSON (`true`, `0.1`, `[1, 2]`)."""
    return value if isinstance(value, str) else json.dumps(value)


def filled_words(word: str, values: Mapping[str, Any], split: Split) -> list[str]:
    """Return the words that one word of a command becomes. A placeholder without a value stays as it is.

    A word that is only placeholders and gets no text disappears. `split` splits a text into words.
    """
    parts = parsed(word)
    if len(parts) == 1 and isinstance(only := parts[0], Placeholder) and only.name in values:
        value = values[only.name]
        if only.form == "?":
            inside = split(only.inside) if is_on(value) != only.is_negated else []
            return [text for each in inside for text in filled_words(each, values, split)]
        if only.form == "..." and isinstance(value, list):
            return [spelled(item) for item in value]
    text = "".join(part if isinstance(part, str) else _text(part, values) for part in parts)
    return [text] if text or not parts or any(isinstance(part, str) for part in parts) else []


def _text(part: Placeholder, values: Mapping[str, Any]) -> str:
    if part.name not in values:
        end = f"?{part.inside}" if part.form == "?" else part.form
        return f"{{{'!' if part.is_negated else ''}{part.name}{end}}}"
    value = values[part.name]
    if part.form == "?":
        is_there = is_on(value) != part.is_negated
        return "".join(
            each if isinstance(each, str) else _text(each, values) for each in parsed(part.inside) if is_there
        )
    if part.form == "...":
        what = f"{{{part.name}...}} needs a list, and must be a word of its own; its value is {value!r}"
        raise SpecError(what, where="script.command", fix=f"write {{{part.name}}} for one word")
    return repr(value) if part.form == "!r" else spelled(value)


# Call a function with the values of a run: `python -m plat.trainer.script.placeholders module:function CONFIG`.


def call(function: str, values: Mapping[str, object]) -> None:
    """Call `module:function` with these values by name, and log the numbers of a dict that it returns.

    `seed` is passed only to a function that takes it. The module is found from the current folder.
    """
    sys.path.insert(0, os.getcwd())
    module, _, name = function.partition(":")
    target = getattr(import_module(module), name)
    parameters = inspect.signature(target).parameters.values()
    takes_seed = any(each.name == "seed" or each.kind is each.VAR_KEYWORD for each in parameters)
    returned = target(**{key: value for key, value in values.items() if key != "seed" or takes_seed})
    if isinstance(returned, Mapping) and returned:
        script_log.log(script_log.last_step + 1, **returned)


if __name__ == "__main__":
    call(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
