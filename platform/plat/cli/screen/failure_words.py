"""Turn the error of a verb into an exit code and a message on stderr, with advice on a wrong command line."""

from __future__ import annotations

import errno
import re
import shlex
import sys
import traceback
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from plat.app.messages import in_our_words, stage
from plat.characters import without_numbers
from plat.cli.common import PIPE_CLOSED, RUNS_FAILED
from plat.cli.result import print_event, settings
from plat.cli.screen.output import tell
from plat.cli.screen.table import first_rows
from plat.cli.verb_list import VERBS, load, plugin_verbs
from plat.dispatch.dispatcher import REFUSED
from plat.errors import HomeError, PlatError, SpecError, StoreError
from plat.processes.interrupt import INTERRUPTED, was_interrupted
from plat.units import are, counted
from plat.words.outcomes import CANCELLED
from plat.words.states import RunStatus

if TYPE_CHECKING:
    from plat.dispatch.sweep_ends import RunEnd, SweepReport

SEEDS = "seeds are an axis of the file, so an override: 'matrix.seed=range(5)'"
_OPTION = re.compile(r"No such option: (-{1,2}[\w-]+)")
_RANGE = re.compile(r" is not in the range (?:([\d.]+)<=)?x(?:(<=|>=)([\d.]+))?$")


class UsageError(SpecError):
    """The command line has a misspelt verb or option, or lacks an argument."""

    code = "command-line"


def explain(error: BaseException, arguments: list[str]) -> int:
    """Print on stderr what went wrong, with `--json` on stdout; return the exit code.

    A closed pipe or terminal gets no message.
    """
    if isinstance(error, PlatError):
        return _show(error, arguments)
    if isinstance(error, OSError):
        return _explain_os_error(error, arguments)
    if was_interrupted(error):
        what = "interrupted; nothing recorded is lost"
        if _as_json({"code": "interrupted", "what": what, "where": None, "fix": None}, INTERRUPTED, arguments):
            return INTERRUPTED
        tell(what)
        return INTERRUPTED
    return _explain_mistake(error, arguments)


def _explain_os_error(error: OSError, arguments: list[str]) -> int:
    if error.errno == errno.EPIPE:
        return PIPE_CLOSED
    if error.errno == errno.EIO and error.filename is None:  # the terminal was closed
        return INTERRUPTED
    known = in_our_words(error)
    return _explain_mistake(error, arguments) if known is None else _show(known, arguments)


def _show(error: PlatError, arguments: list[str]) -> int:
    """Print the error and return its exit code, but 3 when the home or the store failed after runs had begun."""
    code = RUNS_FAILED if stage.dispatched and isinstance(error, HomeError | StoreError) else error.exit_code
    if not _as_json(error.to_json(), code, arguments):
        tell(error.render())
    if settings.verbose:
        traceback.print_exception(error)
    return code


def _as_json(error: dict[str, Any], exit_code: int, arguments: list[str]) -> bool:
    """Print an error as JSON where that was asked for; return whether it was. A usage error may precede `--json`."""
    asked = arguments[: arguments.index("--")] if "--" in arguments else arguments
    if not (settings.json or "--json" in asked):
        return False
    try:
        print_event("error", {"error": error, "exit_code": exit_code})
    except OSError as failure:
        return failure.errno == errno.EPIPE  # on a full disk, stderr has the message
    return True


def usage_error(error: Exception, arguments: list[str]) -> UsageError:
    """Return the complaint of the command-line parser."""
    message = error.format_message() if hasattr(error, "format_message") else str(error)
    context = getattr(error, "ctx", None)
    verb = f"plat {arguments[0]}" if arguments and arguments[0] in {**VERBS, **plugin_verbs()} else "plat"
    command = context.command_path if context is not None else verb
    better = _advice(message, arguments)
    fix = ("" if better is None else f"{better}; ") + f"see `{command} --help`"
    return UsageError(_in_words(message.rstrip(".")), where=f"the command line: plat {shlex.join(arguments)}", fix=fix)


def _explain_mistake(error: BaseException, arguments: list[str]) -> int:
    """Report a mistake in plat in one line, with the traceback in a file (on stderr with -v)."""
    if settings.verbose:
        traceback.print_exception(error)
    what = f"a mistake in plat itself: {type(error).__name__}: {error}"
    where = None if settings.verbose else f"traceback in {_saved(error, arguments)}"
    shown = PlatError(what, where=where, fix="give the same command again to continue; -v shows the traceback")
    if not _as_json({**shown.to_json(), "code": "internal"}, 1, arguments) and not settings.verbose:
        tell(shown.render())
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


# Print how the runs of a verb ended and how to continue.


def conclude(report: SweepReport, verb: str = "sweep") -> int:
    """Print what went wrong and how to continue; return the exit code. `verb` continues stopped runs."""
    stage.concluded = True
    for line in report.trouble:
        print(f"warning: {line}", file=sys.stderr)
    total = counted(len(report.ends), "run")
    queued = [end for end in report.ends.values() if end.state == RunStatus.QUEUED]
    fine = (RunStatus.DONE, RunStatus.QUEUED) if report.detached else (RunStatus.DONE,)
    bad = [end for end in report.ends.values() if end.state not in fine]
    if report.detached and queued:
        where = f"with the scheduler ({places(queued)})"
        print(f"{len(queued)} of {total} {are(len(queued))} {where}; this command is no longer needed")
        fix = "`plat status` and `plat report` show the state and the results; the same command submits the other runs"
        print(fix)
    if report.interrupted:
        done = sum(end.state == RunStatus.DONE for end in report.ends.values())
        rest = "; the same command resumes from here" if done < len(report.ends) else ""
        print(f"interrupted: {done} of {total} {are(done)} done{rest}")
    elif bad:
        print(f"\n{len(bad)} of {total} {are(len(bad))} not done:", file=sys.stderr)
        dropped = [end for end in bad if report.given_up and end.outcome == CANCELLED and not end.fresh]
        known = [end for end in bad if end not in dropped]
        rows = _kinds(known)
        print(first_rows(("run", "outcome", "reason"), rows, 20, ": `plat status` lists them"), file=sys.stderr)
        print("\n".join(_how_to_go_on(known, verb)), file=sys.stderr)
        if dropped:
            print(
                f"{len(dropped)} others were not started after these failures; `--keep-going` starts them",
                file=sys.stderr,
            )
    return report.exit_code


def _kinds(bad: Sequence[RunEnd]) -> list[tuple[str, str, str]]:
    """Return (run, outcome, reason) of the first run of each kind; the run's name counts the others of its kind.

    Runs are of one kind if their outcomes are equal and their reasons differ in numbers only.
    """
    kinds: dict[tuple[str, str], list[RunEnd]] = {}
    for end in bad:
        kinds.setdefault((end.outcome or end.state, without_numbers(end.reason)), []).append(end)
    rows = []
    for (outcome, _), (first, *others) in kinds.items():
        more = f" and {len(others)} more" if others else ""
        rows.append((first.run.name + more, outcome, " ".join(first.reason.split())))
    return rows


def _how_to_go_on(bad: Sequence[RunEnd], verb: str) -> list[str]:
    """Return the commands that continue unfinished runs, which differ between failed and stopped runs."""
    if all(end.outcome == REFUSED for end in bad):
        return ["nothing was started: change what was refused, then give the command again"]
    states = {end.state for end in bad}
    lines = ["`plat logs RUN` shows what a run said, `plat retry` tries again"] if RunStatus.FAILED in states else []
    if states & {RunStatus.INTERRUPTED, RunStatus.MISSING}:
        which = "those that were stopped or did not start" if RunStatus.FAILED in states else "them"
        lines.append(f"the next `plat {verb}` resumes {which}")
    return lines or ["`plat why RUN` says what is known of a run"]


def places(queued: Sequence[RunEnd]) -> str:
    """Return the scheduler's job numbers of these runs, such as "12, 13"; beyond five jobs, five and " and 4 more"."""
    jobs = sorted({end.reason.partition("_")[0] for end in queued})
    return ", ".join(jobs[:5]) + (f" and {len(jobs) - 5} more" if len(jobs) > 5 else "")
