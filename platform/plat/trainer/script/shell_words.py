"""Split a command as a POSIX shell does, and refuse what only a shell can do.

No shell runs a command. So a word that a shell would change, such as `$HOME` or `*.csv`, is refused with a form that
works, and never passed as it is.
"""

from __future__ import annotations

import re
import shlex
from functools import lru_cache
from glob import glob
from pathlib import Path
from typing import NamedTuple

from plat.errors import SpecError
from plat.trainer.script.placeholders import placeholder_at

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
