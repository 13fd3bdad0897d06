"""A command line that the parser refuses: what is wrong in plain words, and how to mend an unknown verb or option.

Reads the options of every verb, which takes a moment.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from plat.cli.verbs import GROUPS, VERBS, load

SEEDS = "seeds are an axis of the file, so an override: 'matrix.seed=range(5)'"
_OPTION = re.compile(r"No such option: (-{1,2}[\w-]+)")
_RANGE = re.compile(r" is not in the range (?:([\d.]+)<=)?x(?:(<=|>=)([\d.]+))?$")


def in_words(complaint: str) -> str:
    """What the parser says of a wrong number, without its names of types and its inequalities."""
    complaint = re.sub(r"is not a valid int( range)?$", "is not a whole number", complaint)
    complaint = re.sub(r"is not a valid float( range)?$", "is not a number", complaint)
    return _RANGE.sub(_limits, complaint)


def _limits(match: re.Match[str]) -> str:
    lowest, comparison, other = match.groups()
    if lowest is not None:
        return f": it must be from {lowest} to {other}"
    return f": it must be at {'least' if comparison == '>=' else 'most'} {other}"


def advice(complaint: str, arguments: Sequence[str]) -> str | None:
    """What to type instead, given what the parser complains about; None where nothing better than the help is known."""
    option = _OPTION.match(complaint)
    if option is not None:
        return _of_option(option[1], arguments)
    if complaint.startswith("No such command"):
        return _of_verb(arguments)
    return None


def _of_option(option: str, arguments: Sequence[str]) -> str | None:
    if option in ("--seed", "--seeds"):
        return SEEDS
    verb = next((word for word in arguments if word in VERBS), None)
    if verb is not None and arguments[0].startswith("-"):
        rest = [word for word in arguments if word != verb]
        return f"options come after the verb: {shlex.join(['plat', verb, *rest])}"
    takers = [f"`plat {name}`" for name in VERBS if name != verb and option in _options_of(name)]
    if takers:
        return f"{option} is an option of {', '.join(takers)}"
    key = option.lstrip("-")
    if key in _keys_of_runs():
        return f"options of runs have no dashes: {key}={_value_of(option, arguments)}"
    return None


def _of_verb(arguments: Sequence[str]) -> str | None:
    words = arguments[0].split() or [""]
    if len(words) > 1 and words[0] in VERBS:
        return f"the quotes make one word of it: {shlex.join(['plat', *words, *arguments[1:]])}"
    if words[0] in ("help", "usage"):
        verb = next((word for word in arguments[1:] if word in {**VERBS, **GROUPS}), None)
        return f"plat {verb} --help" if verb else "plat --help"
    return None


def _options_of(verb: str) -> set[str]:
    return {name for parameter in load(verb).params for name in [*parameter.opts, *parameter.secondary_opts]}


def _keys_of_runs() -> set[str]:
    """The config groups and keys of the trainer that runs have by default."""
    from plat.spec.conf import conf_of
    from plat.spec.runs import DEFAULT_TRAINER
    from plat.spec.schema import schema_of
    from plat.trainer.api import find_trainer

    spec = find_trainer(DEFAULT_TRAINER)
    conf = conf_of(spec.conf) if spec.conf else None
    return {*schema_of(spec.config_type).names(), *(conf.options if conf else ())}


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """What was given with an option: `--task=sokoban` or `--task sokoban`."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option and following and not following.startswith("-"):
            return following
    return "VALUE"
