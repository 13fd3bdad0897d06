"""The tools of `plat mcp`: verbs of plat as processes of their own, for files in one folder.

A tool returns the JSON of its verb (`plat schema VERB`); its error has the JSON of `plat.cli.schemas.lines.Failed`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from pydantic import Field

from plat.errors import SpecError

if TYPE_CHECKING:
    from mcp.server.mcpserver import MCPServer

SOON = 3.0  # seconds in which a sweep that is refused, or has nothing to do, ends
NEXT = (
    "call wait for these files, then claims; after a sweep with decide, give both the override decide=true, and wait "
    "until decided"
)
LOGS = "mcp"  # folder of the home with what sweeps print
INSTRUCTIONS = (
    "plat plans, executes and judges experiments. Results are JSON. A sweep goes on in the background: call wait, then "
    "claims. Runs are never done twice. A verdict is shown, contradicted, not_of_this_size, open or not_enough_data. "
    "Open means that the runs do not decide it, which is not the same as no effect."
)


@dataclass(frozen=True)
class Served:
    """What the tools may use: the files below `folder`, and one home with its store."""

    folder: Path
    home: Path
    store: str | None = None

    def call(self, verb: str, *words: str) -> dict[str, Any]:
        """Return the JSON of a verb: its result, or the error that ended it."""
        command = self._command(verb, words)
        done = subprocess.run(
            command, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace"
        )
        last = _last_json(done.stdout)
        if last is None:
            what = f"plat {verb} ended with exit code {done.returncode} and without a result"
            return _error("internal", what, done.stderr[-1000:] or None, "give the same command in a shell")
        return last if "error" in last else {**last, "exit_code": done.returncode}

    def start(self, verb: str, *words: str) -> dict[str, Any]:
        """Start a verb that goes on when this process ends; return its process and the file of its JSON lines.

        A verb that ends within SOON seconds is answered as `call` does.
        """
        logs = self.home / LOGS
        logs.mkdir(parents=True, exist_ok=True)
        handle, log = tempfile.mkstemp(prefix=f"{verb}-", suffix=".jsonl", dir=logs)
        with open(handle, "wb") as out, open(f"{log}.stderr", "wb") as err:
            process = subprocess.Popen(
                self._command(verb, words),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = process.wait(SOON)
            if (last := _last_json(Path(log).read_text(errors="replace"))) is not None:
                return last if "error" in last else {**last, "exit_code": code}
        return {"process": process.pid, "log": log, "next": NEXT}

    def inside(self, path: str) -> str:
        """Return the path of a file, if it lies below the folder. Raises SpecError otherwise."""
        found = (self.folder / path).resolve()
        if path.startswith("-") or not found.is_relative_to(self.folder.resolve()):
            fix = "start `plat mcp` in a folder that has the file"
            raise SpecError(f"{path!r} is outside of the folder of this server", where=str(self.folder), fix=fix)
        return os.path.relpath(found, self.folder.resolve())

    def words(self, files: Sequence[str], overrides: Sequence[str] = ()) -> list[str]:
        """Return the arguments of a verb: files below the folder, and overrides. Raises SpecError for others."""
        for text in overrides:
            if text.startswith("-") or "=" not in text:
                raise SpecError(f"{text!r} is no override", where="overrides", fix="write KEY=VALUE")
        return [*map(self.inside, files), *overrides]

    def _command(self, verb: str, words: Sequence[str]) -> list[str]:
        of_home = [
            "--home",
            str(self.home),
            *(["--store", self.store] if self.store and verb not in WITHOUT_STORE else []),
        ]
        return [sys.executable, "-m", "plat", verb, "--json", *of_home, *words]


WITHOUT_STORE = ("runs", "why", "logs", "status", "cancel")


def make_server(served: Served, *, allow_runs: bool) -> MCPServer:
    """Return the server; without `allow_runs`, its tools start and stop no run and execute no command."""
    from mcp.server.mcpserver import MCPServer

    from plat import __version__

    server = MCPServer("plat", instructions=INSTRUCTIONS, version=__version__, log_level="WARNING")
    _add_reading(server, served)
    if allow_runs:
        _add_running(server, served)
    return server


def _told(found: dict[str, Any]) -> dict[str, Any]:
    """Return what a verb found; of an error a result that says so, with the error as JSON."""
    from mcp_types import CallToolResult, TextContent

    if "error" not in found:
        return found
    result = CallToolResult(content=[TextContent(text=json.dumps(found))], structured_content=found, is_error=True)
    return cast("dict[str, Any]", result)  # the SDK passes it on as it is


def _checked(served: Served, verb: str, words: Any, *more: str, start: bool = False) -> dict[str, Any]:
    """Call or start a verb with the words that `words()` makes; its SpecError becomes the error of the tool."""
    try:
        found = (served.start if start else served.call)(verb, *words(), *more)
    except SpecError as error:
        found = {"event": "error", "error": error.to_json(), "exit_code": error.exit_code}
    except (OSError, ValueError) as error:  # such as a null byte, or a full disk
        found = _error("bad-input", str(error), None, "give other arguments, or free some space")
    return _told(found)


def _last_json(text: str) -> dict[str, Any] | None:
    """Return a JSON document, or the last of some JSON lines; None without one."""
    for part in (text, (text.splitlines() or [""])[-1]):
        with contextlib.suppress(ValueError):
            found = json.loads(part)
            if isinstance(found, dict):
                return found
    return None


def _error(code: str, what: str, where: str | None, fix: str) -> dict[str, Any]:
    return {"event": "error", "error": {"code": code, "what": what, "where": where, "fix": fix}, "exit_code": 1}


def _add_reading(server: MCPServer, served: Served) -> None:
    from mcp_types import ToolAnnotations

    reads = ToolAnnotations(read_only_hint=True, open_world_hint=False)

    @server.tool(annotations=reads)
    def plan(files: list[str], overrides: Sequence[str] = ()) -> dict[str, Any]:
        """Which runs of experiment files are done and missing, and what they cost."""
        return _checked(served, "plan", lambda: served.words(files, overrides))

    @server.tool(annotations=reads)
    def runs(files: Sequence[str] = (), metrics: Sequence[str] = (), last: bool = True) -> dict[str, Any]:
        """The runs of files, or all: state, axes, cost, and the newest values (last) or curves of metrics."""
        more = [f"--metrics={','.join(metrics)}", *(["--last"] if last else [])] if metrics else []
        return _checked(served, "runs", lambda: served.words(files), *more)

    @server.tool(annotations=reads)
    def claims(files: list[str], overrides: Sequence[str] = ()) -> dict[str, Any]:
        """The verdict on each claim of experiment files, with its numbers."""
        return _checked(served, "claims", lambda: served.words(files, overrides))

    @server.tool(annotations=reads)
    def wait(
        files: list[str],
        until: Literal["done", "decided", "failed"] = "done",
        seconds: float = 60,
        overrides: Sequence[str] = (),
    ) -> dict[str, Any]:
        """Wait until the runs of files are done, decided or failed, at most so many seconds; `reached` says whether."""
        more = [f"--until={until}", f"--timeout={max(1, min(3600, round(seconds)))}s"]
        return _checked(served, "wait", lambda: served.words(files, overrides), *more)

    @server.tool(annotations=reads)
    def why(run: str) -> dict[str, Any]:
        """Why a run is in its state: attempts, damage, what its identity is made of."""
        return _checked(served, "why", lambda: [_name(run)])

    @server.tool(annotations=reads)
    def logs(run: str) -> dict[str, Any]:
        """What a run printed, and what it measured."""
        return _checked(served, "logs", lambda: [_name(run)])


def _add_running(server: MCPServer, served: Served) -> None:
    @server.tool()
    def sweep(
        files: list[str],
        overrides: Sequence[str] = (),
        jobs: Annotated[int, Field(ge=1)] | None = None,
        decide: bool = False,
    ) -> dict[str, Any]:
        """Start the missing runs of experiment files in the background; with decide, until their claims are decided."""
        more = [*([f"--jobs={jobs}"] if jobs else []), *(["--decide"] if decide else [])]
        return _checked(served, "sweep", lambda: served.words(files, overrides), *more, start=True)

    @server.tool()
    def judge(
        command: str, metric: str, against: str, lower: bool = False, budget: str = "10m", study: str = ""
    ) -> dict[str, Any]:
        """Whether a command is better than a commit, a folder or another command; executes pairs of runs."""
        more = [f"--metric={metric}", f"--against={against}", f"--budget={budget}", f"--study={study}"]
        more = [word for word in more if not word.endswith("=")] + ["--lower"] * lower
        return _checked(served, "judge", lambda: [_name(command)], *more)

    @server.tool()
    def report(files: list[str], overrides: Sequence[str] = ()) -> dict[str, Any]:
        """Write tables, figures and one HTML page of experiment files; returns their paths."""
        return _checked(served, "report", lambda: served.words(files, overrides))

    @server.tool()
    def cancel(files: list[str]) -> dict[str, Any]:
        """Stop the active runs of experiment files after a checkpoint."""
        return _checked(served, "cancel", lambda: served.words(files))


def _name(text: str) -> str:
    """Return a run or a command. Raises SpecError for an option."""
    if text.startswith("-"):
        raise SpecError(f"{text!r} is an option", where="the arguments of the tool", fix="name a run or a command")
    return text
