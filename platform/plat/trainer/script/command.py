"""Fill the placeholders of a command: `python train.py --lr {lr}` becomes its words for one run."""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Mapping
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig

PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.]*)\}")
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
OF_THE_RUN = ("run_dir", "checkpoint_dir", "config")  # folders and files that exist only when the run starts
SHELL = ("|", "||", "&&", "&", ";", ">", ">>", "<", "2>&1")


def words_of(script: ScriptConfig) -> list[str]:
    """Return the words of the command, a text as a shell would split it, or those that call the function.

    Raises SpecError for a wrong command or function, or if there are both or none.
    """
    command = script.command
    if script.function:
        if command or not FUNCTION.fullmatch(script.function):
            what = f"script.function is {script.function!r}" + (", and there is a command, too" if command else "")
            raise SpecError(what, where="script.function", fix="write `module:function`, without script.command")
        return ["python", "-m", "plat.trainer.script.call", script.function, "{config}"]
    if isinstance(command, list) and command and all(isinstance(word, str | int | float) for word in command):
        return [str(word) for word in command]
    if not isinstance(command, str):
        fix = 'write a text such as "python train.py --lr {lr} --seed {seed}", or a list of words'
        raise SpecError(f"{command!r} is not a command", where="script.command", fix=fix)
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise SpecError(f"script.command: {error}", where="script.command", fix="close the quotes") from None
    if not words:
        fix = "write: python train.py, or name a script.function"
        raise SpecError("there is no command", where="script.command", fix=fix)
    if used := [word for word in words if word in SHELL]:
        fix = f"write it for a shell: bash -c {shlex.quote(command)}"
        raise SpecError(f"the command has {used[0]!r}, and no shell reads it", where="script.command", fix=fix)
    return words


def placeholders(words: list[str]) -> list[str]:
    """Return the names of all placeholders, in their order."""
    return [match[1] for word in words for match in PLACEHOLDER.finditer(word) if match[1]]


def check_placeholders(config: ScriptRunConfig) -> None:
    """Raise SpecError for a placeholder without a value, or a key that a command with placeholders does not use."""
    names, known = placeholders(words_of(config.script)), arguments(config)
    for name in names:
        if name not in known and name not in OF_THE_RUN:
            fix = suggest(name, [*known, *OF_THE_RUN], "names")
            raise SpecError(f"the command uses {{{name}}}, which has no value", where="script.command", fix=fix)
    for name in flat(config.args) if names and "config" not in names else ():
        if name not in names:
            fix = f"write {{{name}}} where its value belongs, or {{config}}, a JSON file with all values"
            raise SpecError(f"the command does not use {name}", where=f"args.{name}", fix=fix)


def filled(config: ScriptRunConfig, of_the_run: Mapping[str, str]) -> list[str]:
    """Return the words of the command with all values filled in; `python` is the Python that runs plat.

    of_the_run   the values of OF_THE_RUN
    """
    values = {**{name: spelled(value) for name, value in arguments(config).items()}, **of_the_run}
    words = [PLACEHOLDER.sub(lambda match: _value(match, values), word) for word in words_of(config.script)]
    return [sys.executable, *words[1:]] if words[0] in ("python", "python3") else words


def _value(match: re.Match[str], values: Mapping[str, str]) -> str:
    return match[0][0] if match[1] is None else values.get(match[1], match[0])


def arguments(config: ScriptRunConfig) -> dict[str, Any]:
    """Return the values for placeholders that are known before the run starts: `seed`, and all keys of `args`."""
    return {"seed": config.seed, **flat(config.args)}


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value of nested mappings."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= flat(value, f"{prefix}{name}.") if isinstance(value, Mapping) else {f"{prefix}{name}": value}
    return found


def spelled(value: Any) -> str:
    """Return a value as a word of a command: a text as it is, others as JSON (`true`, `0.1`, `[1, 2]`)."""
    return value if isinstance(value, str) else json.dumps(value)
