"""Make the command of one run: `python train.py --lr {lr}` becomes its words, with the Python that runs them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import Any, NamedTuple

from plat.errors import SpecError
from plat.suggest import suggest
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig
from plat.trainer.script.placeholders import filled_words, names_in, placeholder_at, spelled

FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_END = "([-_]?(dir|file|path|folder|to))?"
WRITTEN = re.compile(
    rf"--?(o|out|output|save|results?|log|logs|logging|work){_END}"
)  # options for what a script writes
OUTPUT = re.compile(rf"{WRITTEN.pattern}|--?(checkpoint|ckpt|run|runs|tb|tensorboard){_END}")  # or may write
PYTHONS = ("python", "python3")
# What plat itself fills in when the run starts. `{run_dir}` is `{plat.run_dir}` where no axis or key has that name.
OF_THE_RUN = ("run_dir", "checkpoint_dir", "config", "checkpoint", "python")
PREFIX = "plat."
_OF_0_4 = ("run_dir", "checkpoint_dir", "config")
_PLACEHOLDER_OF_0_4 = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.]*)\}")


def command_of(script: ScriptConfig) -> Split:
    """Return the words of the command and the variables before them, or the words that call the function.

    A text is read as a shell reads it; a list of words is taken as it is. Raises SpecError for a wrong command or
    function, or if there are both or none.
    """
    command = script.command
    if script.function:
        if command or not FUNCTION.fullmatch(script.function):
            what = f"script.function is {script.function!r}" + (", and there is a command, too" if command else "")
            raise SpecError(what, where="script.function", fix="write `module:function`, without script.command")
        # -P: a file of the user such as json.py must not stand in for a module that plat imports
        return Split(["python", "-P", "-m", "plat.trainer.script.placeholders", script.function, "{plat.config}"], {})
    if isinstance(command, list) and command and all(isinstance(word, str | int | float) for word in command):
        return Split([str(word) for word in command], {})
    if not isinstance(command, str):
        fix = 'write a text such as "python train.py --lr {lr} --seed {seed}", or a list of words'
        raise SpecError(f"{command!r} is not a command", where="script.command", fix=fix)
    parts = split(command, Path(script.folder))
    if not parts.words:
        fix = "write: python train.py, or name a script.function"
        raise SpecError("there is no command", where="script.command", fix=fix)
    if own := [name for name in parts.variables if name.startswith("PLAT_")]:
        raise SpecError(
            f"plat itself sets {own[0]}", where="script.command", fix="leave it out, or choose another name"
        )
    return parts


def words_of(script: ScriptConfig) -> list[str]:
    """Return the words of the command, as `command_of`."""
    return command_of(script).words


def placeholders(script: ScriptConfig) -> list[str]:
    """Return the names of all placeholders of the command and its variables, in their order."""
    parts = command_of(script)
    return [name for word in [*parts.variables.values(), *parts.words] for name in names_in(word)]


def check_placeholders(config: ScriptRunConfig) -> None:
    """Raise SpecError for a placeholder without a value, or a key that a command with placeholders does not use."""
    names, known = placeholders(config.script), arguments(config)
    own = [f"{PREFIX}{name}" for name in (*OF_THE_RUN, "seed")]
    if taken := [name for name in own if name in known]:
        raise SpecError(f"{taken[0]} is plat's own placeholder", where=f"args.{taken[0]}", fix="choose another name")
    for name in names:
        if name not in known and name not in OF_THE_RUN and name not in own:
            fix = suggest(name, [*known, *OF_THE_RUN, *own], "names")
            raise SpecError(f"the command uses {{{name}}}, which has no value", where="script.command", fix=fix)
    reads_all = f"{PREFIX}config" in names or ("config" in names and "config" not in known)
    for name in flat(config.args) if names and not reads_all else ():
        if name not in names:
            fix = f"write {{{name}}} where its value belongs, or {{plat.config}}, a JSON file with all values"
            raise SpecError(f"the command does not use {name}", where=f"args.{name}", fix=fix)
    filled(config, {name: "" for name in OF_THE_RUN})  # refuses values that do not fit
    filled_variables(config, {})


def filled(config: ScriptRunConfig, of_the_run: Mapping[str, str]) -> list[str]:
    """Return the words of the command with all values filled in; `python` is the Python of `interpreter`.

    of_the_run   the values of OF_THE_RUN, those of `python` aside. An axis or key of the same name comes first
    """
    values = _values(config, of_the_run)
    words = [text for word in words_of(config.script) for text in filled_words(word, values, _texts)]
    return [values[f"{PREFIX}python"], *words[1:]] if words[:1] and words[0] in PYTHONS else words


def filled_variables(config: ScriptRunConfig, of_the_run: Mapping[str, str]) -> dict[str, str]:
    """Return the variables before the command with all values filled in, "" for an empty value."""
    values = _values(config, of_the_run)
    given = command_of(config.script).variables
    return {name: "".join(filled_words(text, values, lambda inside: [inside])) for name, text in given.items()}


def _values(config: ScriptRunConfig, of_the_run: Mapping[str, str]) -> dict[str, Any]:
    own = {"python": interpreter(config.script), **of_the_run}
    with_prefix = {f"{PREFIX}{name}": value for name, value in {**own, "seed": config.seed}.items()}
    return {**own, **arguments(config), **with_prefix}


def _texts(inside: str) -> list[str]:
    return [word.text for word in shell_words(inside)]


def interpreter(script: ScriptConfig) -> str:
    """Return the Python of the command: `script.python`, a path from the folder or a program, else that of plat."""
    named = os.path.expanduser(script.python)
    if "/" in named:
        return os.path.abspath(Path(script.folder, named))  # links stay: the Python of a virtual environment is one
    return shutil.which(named) or named if named else sys.executable


def search_path(script: ScriptConfig) -> str:
    """Return PATH of the command: it begins with the folder of its Python, which `bash -c 'python ...'` then finds."""
    first, path = os.path.dirname(interpreter(script)), os.environ.get("PATH", os.defpath)
    return path if not first or path.split(os.pathsep)[0] == first else f"{first}{os.pathsep}{path}"


def is_read_anew(config: ScriptRunConfig) -> bool:
    """Return True if plat 0.4 read another command from this config: then a run of it was another run."""
    if config.script.function:
        return False
    places = {name: f"{{{name}}}" for name in _OF_0_4}
    texts = {name: spelled(value) for name, value in arguments(config).items()} | places
    command = config.script.command
    try:
        words = shlex.split(command) if isinstance(command, str) else words_of(config.script)
    except ValueError:  # an apostrophe in a comment
        return True

    def value(match: re.Match[str]) -> str:
        return match[0][0] if match[1] is None else texts.get(match[1], match[0])

    before = [_PLACEHOLDER_OF_0_4.sub(value, word) for word in words]
    if before[0] in PYTHONS:
        before[0] = interpreter(config.script)
    return before != filled(config, {**places, "checkpoint": ""}) or bool(command_of(config.script).variables)


def arguments(config: ScriptRunConfig) -> dict[str, Any]:
    """Return the values for placeholders that are known before the run starts: `seed`, and all keys of `args`."""
    return {"seed": config.seed, **flat(config.args)}


def flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return dotted key -> value of nested mappings: {"a": {"": 1, "b": 2}} gives {"a": 1, "a.b": 2}."""
    found: dict[str, Any] = {}
    for name, value in values.items():
        key = f"{prefix}{name}".removesuffix("" if name else ".")
        found |= flat(value, f"{key}.") if isinstance(value, Mapping) else {key: value}
    return found


# Split a command as a POSIX shell does, and refuse what only a shell can do.
#
# No shell runs a command. So a word that a shell would change, such as `$HOME` or `*.csv`, is refused with a form that
# works, and never passed as it is.

QUOTED = "\0"  # a character that a quote, a backslash or a placeholder protects
OPERATOR = re.compile(r"[|&;<>]")
EXPANSION = re.compile(r"\$[\w{(@*#?$!-]|`")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
BUILTINS = ("cd", "export", "source", ".", "set", "unset", "ulimit", "alias", "exec", "eval", "if", "for", "while")


class Word(NamedTuple):
    """A word: its text, and the same text with QUOTED for each character that means only itself."""

    text: str
    bare: str


class Split(NamedTuple):
    """A command that was read: the words, and the variables that stand before the program. Read-only."""

    words: list[str]
    variables: dict[str, str]


@lru_cache(maxsize=256)
def split(command: str, folder: Path) -> Split:
    """Return the words of a command and its variables. A file name with `*` is one of the files in `folder`.

    Raises SpecError for open quotes, and for what only a shell can do.
    """
    words = shell_words(command)
    for word in words:
        if what := _needs_a_shell(word, folder):
            raise SpecError(what, where="script.command", fix=_for_a_shell(command, word))
    count = 0
    while count < len(words) and ASSIGNMENT.match(words[count].bare):
        count += 1
    variables = dict(word.text.split("=", 1) for word in words[:count])
    if count < len(words) and words[count].text in BUILTINS:
        what = f"{words[count].text!r} is a command of a shell, and no shell reads this"
        raise SpecError(what, where="script.command", fix=_for_a_shell(command, words[count]))
    return Split([word.text for word in words[count:]], variables)


def shell_words(command: str) -> list[Word]:
    """Split a text at blanks, without comments and joined lines.

    Raises SpecError for open quotes, and for a comment with options or placeholders.

    A placeholder is one part of a word, whatever stands in its braces.
    """
    words: list[Word] = []
    text, bare, begun, quote, at = "", "", False, "", 0
    while at < len(command):
        letter, pair = command[at], command[at : at + 2]
        placeholder, end = placeholder_at(command, at)
        size = 1
        if quote == "'":
            if letter == quote:
                quote = ""
            else:
                text, bare = text + letter, bare + QUOTED
        elif pair == "\\\n":
            size = 2
        elif letter == "\\" and (not quote or pair[1:] in ("$", "`", '"', "\\")):
            text, bare, begun, size = text + pair[1:], bare + QUOTED * len(pair[1:]), True, 2
        elif letter == quote:
            quote = ""
        elif not quote and letter in "'\"":
            quote, begun = letter, True
        elif placeholder is not None and not bare.endswith("$"):
            text, bare, size = text + command[at:end], bare + QUOTED * (end - at), end - at
        elif not quote and letter.isspace():
            words += [Word(text, bare)] if text or begun else []
            text, bare, begun = "", "", False
        elif not quote and letter == "#" and not text and not begun:
            size = len(comment := command[at:].partition("\n")[0])
            if re.search(r"\s(-\w|--\w|\{)", comment):
                what = f"the comment {comment[:40]!r} ends at the end of its line, and would take options with it"
                fix = "remove it; in a folded block (`>`), all lines are one"
                raise SpecError(what, where="script.command", fix=fix)
        else:
            is_special = not quote or letter in "$`" or (bare.endswith("$") and not OPERATOR.match(letter))
            text, bare = text + letter, bare + (letter if is_special else QUOTED)
        at += size
    if quote:
        raise SpecError("script.command: No closing quotation", where="script.command", fix="close the quotes")
    return [*words, Word(text, bare)] if text or begun else words


def _needs_a_shell(word: Word, folder: Path) -> str:
    """Return what is wrong with a word that a shell would not pass as it is, "" if nothing is."""
    if OPERATOR.search(word.bare):
        return f"the command has {word.text!r}, and no shell reads it"
    value = word.bare[match.end() :] if (match := ASSIGNMENT.match(word.bare)) else word.bare
    if EXPANSION.search(word.bare) or re.match(r"~(/|\w|$)", value):
        return f"a shell would change the word {word.text!r}, and no shell reads it"
    if re.search(r"[*?]|\[.*\]", word.bare):
        pattern = "".join(
            a if b != QUOTED else f"[{a}]" if a in "*?[" else a for a, b in zip(word.text, word.bare, strict=True)
        )
        if "*" in word.bare or glob(pattern, root_dir=folder):
            return f"a shell would put file names in place of {word.text!r}, and no shell reads it"
    return ""


def _for_a_shell(command: str, word: Word) -> str:
    """Return the advice: the command for a shell, with the braces of `${NAME}` doubled."""
    text = re.sub(r"\$\{([^{}]*)\}", r"${{\1}}", command.strip())
    whole = f"write it for a shell: bash -c {shlex.quote(text)}"
    if any(sign in word.bare for sign in "<>"):
        return f"leave it out, because a run's log keeps the output; or {whole}"
    is_quotable = not OPERATOR.search(word.bare) and word.text not in BUILTINS
    return f"{whole}; or in quotes, for the text itself: {shlex.quote(word.text)}" if is_quotable else whole
