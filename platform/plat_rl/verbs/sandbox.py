"""`plat sandbox run|probe`: run a program that nobody trusts, and try which levels this machine has."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from typing_extensions import TypedDict

from plat.cli.common import RUNS_FAILED, VerbGroup, verb
from plat.cli.result import Result, settings
from plat.cli.screen.output import tell
from plat.cli.screen.table import fitted
from plat.errors import SpecError
from plat.plain_files import read_text
from plat_rl.verbs import bad_input

LevelOption = Annotated[
    str | None,
    typer.Option("--level", metavar="NAME", help="namespaces, landlock, remote, limits_only [the first]."),
]
UrlOption = Annotated[str | None, typer.Option("--url", metavar="URL", help="A grader, for the level remote.")]


class ProgramData(TypedDict):
    """plat sandbox run"""

    status: str
    """ok, or what ended the program."""
    exit_code: int
    stdout: str
    stderr: str
    cpu_seconds: float
    wall_seconds: float
    memory_bytes: int
    sandbox: dict[str, Any]


class LevelsData(TypedDict):
    """plat sandbox probe"""

    levels: list[dict[str, Any]]


@verb(ProgramData)
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A program in Python.")],
    stdin: Annotated[str | None, typer.Option("--stdin", metavar="TEXT", help="What it reads on stdin.")] = None,
    input_file: Annotated[
        Path | None, typer.Option("--input", metavar="FILE", help="A file that it reads on stdin.")
    ] = None,
    level: LevelOption = None,
    url: UrlOption = None,
    seconds: Annotated[float, typer.Option("--seconds", metavar="N", help="Processor time that it may take.")] = 4.0,
) -> Result:
    """Run one program in the sandbox and print what it wrote.

    Exit code 3 unless the program ended within its limits and with exit code 0.
    """
    from plat_envs.sandbox.program import Limits, Program
    from plat_envs.sandbox.sandbox import Sandbox

    if stdin is not None and input_file is not None:
        raise SpecError("--stdin and --input both say what the program reads", fix="leave one of them out")
    if url is not None and level != "remote":
        what = f"--url names a grader, but the level is {level or 'the first that this machine has'}"
        raise SpecError(what, fix="add --level remote, or leave out --url")
    source, text = _read(file), stdin or ""
    if input_file is not None:
        text = _read(input_file)
    with bad_input():
        sandbox = Sandbox(level, Limits(cpu_seconds=seconds), url=url)
        outcome = sandbox.run(Program(source), [text])[0]
    facts = {**vars(outcome), "stdout": outcome.stdout.decode("utf-8", "replace")}
    if not settings.json:
        print(outcome.stdout.decode("utf-8", "replace"), end="")
        sys.stdout.flush()
        print(outcome.stderr, end="", file=sys.stderr)
        is_told = outcome.status in ("ok", "cpu", "wall", "output") or outcome.exit_code in (0, 1)  # 1: a traceback
        ended = "" if is_told else f", {_end(outcome.exit_code)}"
        tell(f"{outcome.status}{ended}: {outcome.cpu_seconds:.2f} s of processor time, level {sandbox.level}")
    code = 0 if outcome.status == "ok" else RUNS_FAILED
    return Result({**facts, "sandbox": sandbox.provenance()}, code=code)


@verb(LevelsData)
def probe(url: UrlOption = None) -> Result:
    """Try every level with hostile programs, and print which of them can be had.

    Exit code 2 if none can.
    """
    from plat_envs.environment_errors import ServiceError
    from plat_envs.sandbox.levels import ORDER, choose, problem_of, provenance

    names = [name for name in ORDER if name != "remote" or url is not None]
    problems: dict[str, str | None] = {}
    with bad_input():
        for name in names:
            try:
                problems[name] = problem_of(name, url)
            except ServiceError as error:
                problems[name] = error.what
        facts = [
            {"level": name, "problem": problem, **({} if problem else provenance(name, url))}
            for name, problem in problems.items()
        ]
        lines = []
        for fact in facts:
            means = ", ".join(f"{key} {value}" for key, value in fact.items() if key not in ("level", "problem"))
            lines.append(fitted(f"{fact['level']:11} {fact['problem'] or f'can be had: {means}'}"))
        if all(problems.values()):
            print("\n".join(lines))
            choose(url=url)  # says what to do
    return Result({"levels": facts}, "\n".join(lines))


GROUP = VerbGroup("Run a program that nobody trusts, and try the sandbox.", {"run": run, "probe": probe})


def _end(exit_code: int) -> str:
    """Return how a process ended in words: `exit code 5`, or the name of the signal of a negative code."""
    names = {number.value: number.name for number in signal.Signals}
    return f"exit code {exit_code}" if exit_code > 0 else names.get(-exit_code, f"signal {-exit_code}")


def _read(path: Path) -> str:
    """Return the text of a file; SpecError if it cannot be read."""
    try:
        return read_text(path, limit=64 << 20)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SpecError(f"the file cannot be read: {said}", where=str(path), fix="name a text file") from error
