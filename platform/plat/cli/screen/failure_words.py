"""Turn the error of a verb into an exit code and a message on stderr, with advice on a wrong command line."""

from __future__ import annotations

import errno
import re
import shlex
import traceback
from collections.abc import Sequence

from plat.app.messages import stage
from plat.app.os_errors import in_our_words
from plat.cli.common import PIPE_CLOSED, RUNS_FAILED, settings
from plat.cli.screen.output import tell
from plat.cli.verb_list import VERBS, load, plugin_verbs
from plat.errors import HomeError, PlatError, SpecError, StoreError
from plat.processes.interrupt import INTERRUPTED, was_interrupted

SEEDS = "seeds are an axis of the file, so an override: 'matrix.seed=range(5)'"
_OPTION = re.compile(r"No such option: (-{1,2}[\w-]+)")
_RANGE = re.compile(r" is not in the range (?:([\d.]+)<=)?x(?:(<=|>=)([\d.]+))?$")


def explain(error: BaseException, arguments: list[str]) -> int:
    """Print on stderr what went wrong, and return the exit code. A closed pipe or terminal gets no message."""
    if isinstance(error, PlatError):
        return _show(error)
    if isinstance(error, OSError):
        return _explain_os_error(error, arguments)
    if was_interrupted(error):
        tell("interrupted; nothing recorded is lost")
        return INTERRUPTED
    return _explain_mistake(error, arguments)


def _explain_os_error(error: OSError, arguments: list[str]) -> int:
    if error.errno == errno.EPIPE:
        return PIPE_CLOSED
    if error.errno == errno.EIO and error.filename is None:  # the terminal was closed
        return INTERRUPTED
    known = in_our_words(error)
    return _explain_mistake(error, arguments) if known is None else _show(known)


def _show(error: PlatError) -> int:
    """Print the error and return its exit code, but 3 when the home or the store failed after runs had begun."""
    tell(error.render())
    if settings.verbose:
        traceback.print_exception(error)
    return RUNS_FAILED if stage.dispatched and isinstance(error, HomeError | StoreError) else error.exit_code


def usage_error(error: Exception, arguments: list[str]) -> SpecError:
    """Return the complaint of the command-line parser as a SpecError."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    verb = f"plat {arguments[0]}" if arguments and arguments[0] in {**VERBS, **plugin_verbs()} else "plat"
    command = context.command_path if context is not None else verb
    better = _advice(message, arguments)
    fix = ("" if better is None else f"{better}; ") + f"see `{command} --help`"
    return SpecError(_in_words(message.rstrip(".")), where=f"the command line: plat {shlex.join(arguments)}", fix=fix)


def _explain_mistake(error: BaseException, arguments: list[str]) -> int:
    """Report a mistake in plat in one line, with the traceback in a file (on stderr with -v)."""
    if settings.verbose:
        traceback.print_exception(error)
        return 1
    tell(f"error: a mistake in plat itself: {type(error).__name__}: {error}")
    tell(f"   at: traceback in {_saved(error, arguments)}")
    tell("  fix: give the same command again to continue; -v shows the traceback")
    return 1


def _saved(error: BaseException, arguments: list[str]) -> str:
    """Write the command and its traceback, without passwords, to a new private file, and return its path."""
    import tempfile

    from plat.store.mlflow.uri import mask_passwords

    text = f"$ plat {' '.join(arguments)}\n{''.join(traceback.format_exception(error))}"
    try:
        handle, path = tempfile.mkstemp(prefix="plat-error-", suffix=".txt", text=True)
        with open(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(mask_passwords(text))
    except OSError:
        return "(could not be saved; use -v)"
    return path


def _in_words(complaint: str) -> str:
    """Remove type names and inequalities from the parser's complaint about a number; return other complaints as is."""
    complaint = re.sub(r"is not a valid int( range)?$", "is not a whole number", complaint)
    complaint = re.sub(r"is not a valid float( range)?$", "is not a number", complaint)
    return _RANGE.sub(_limits, complaint)


def _limits(match: re.Match[str]) -> str:
    lowest, comparison, other = match.groups()
    if lowest is not None:
        return f": it must be from {lowest} to {other}"
    return f": it must be at {'least' if comparison == '>=' else 'most'} {other}"


def _advice(complaint: str, arguments: Sequence[str]) -> str | None:
    """Return what to type instead, from the parser's complaint; None if only the help can be suggested."""
    if option := _OPTION.match(complaint):
        return _of_option(option[1], arguments)
    return _of_verb(arguments) if complaint.startswith("No such command") else None


def _of_option(option: str, arguments: Sequence[str]) -> str | None:
    if arguments[0] == "init":
        return "options of the script stand after `--`: plat init train.py -- fit --lr 0.1"
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
        return f"remove the quotes, which join several words: {shlex.join(['plat', *words, *arguments[1:]])}"
    if words[0] in ("help", "usage"):
        verb = next((word for word in arguments[1:] if word in {**VERBS, **plugin_verbs()}), None)
        return f"plat {verb} --help" if verb else "plat --help"
    return None


def _options_of(verb: str) -> set[str]:
    return {name for parameter in load(verb).params for name in [*parameter.opts, *parameter.secondary_opts]}


def _keys_of_runs() -> set[str]:
    """Return the config groups and keys of the default trainer."""
    from plat.spec.composition.conf import conf_of
    from plat.spec.composition.schema import schema_of
    from plat.trainer.finding import default_trainer, find_trainer

    name = default_trainer()
    if name is None:
        return set()
    spec = find_trainer(name)
    conf = conf_of(spec.conf) if spec.conf else None
    return {*schema_of(spec.config_type).names(), *(conf.options if conf else ())}


def _value_of(option: str, arguments: Sequence[str]) -> str:
    """Return the value given with an option, `--task=digits` or `--task digits`, else "VALUE"."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        if word.startswith(f"{option}="):
            return word.partition("=")[2]
        if word == option and following and not following.startswith("-"):
            return following
    return "VALUE"
