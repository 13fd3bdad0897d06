"""Run a script as a run of plat: start it, log its metrics, keep its checkpoints, and end it when asked."""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import signal
import time
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from plat.characters import masked
from plat.errors import RunError, os_errors_as
from plat.processes.identification import marked
from plat.processes.process_tree import signal_name
from plat.trainer.api import Outcome, RunIO
from plat.trainer.heartbeat import beat
from plat.trainer.script.advice import moved, nothing_read
from plat.trainer.script.checkpoints import CheckpointFolder
from plat.trainer.script.command import filled, interpreter
from plat.trainer.script.config import TEXT, ScriptConfig, ScriptRunConfig, sources_of
from plat.trainer.script.process import Script
from plat.trainer.script.readers.objects import Logged, Source
from plat.trainer.script.readers.output import Output
from plat.trainer.script.recorder import Recorder
from plat.trainer.script.snapshot import HOOK, redirected
from plat.trainer.script.source_files import opened, prepared, remove_old
from plat.trainer.script.trial import environment, link_files, placed, searched, with_folders
from plat.words.outcomes import FINISHED, INTERRUPTED

TICK = 0.1  # seconds between two looks at files
LINGER = 1.0  # seconds for which processes are watched that a script has left
PAUSE = 0.3  # seconds after the end of a script, after which only a process in the background logs metrics
SLACK = 0.02  # seconds: the times of files are up to some milliseconds behind the clock


def train(config: ScriptRunConfig, io: RunIO) -> Outcome:
    """Run the script of a config until it ends or the run is asked to stop.

    Raises RunError if the script cannot be started, fails, logs no metric, or logs a lower step after a higher one.
    """
    folder = Path(config.script.folder)
    if not folder.is_dir():
        fix = "sweep again from where the script is now, which records the new folder"
        raise RunError("the folder of the script is gone", where=str(folder), fix=fix)
    files = io.files
    advice = "free some disk space, or make the folder writable, then `plat retry`"
    with os_errors_as(RunError, "cannot prepare the folder of the script's files", files, advice):
        checkpoints = CheckpointFolder(files / "checkpoints", io)
        places = placed(config, files, checkpoints.restored is not None)
        remove_old(config.script, files)
        variables = environment(config, places) | prepared(config.script, files, io.cache)
        if config.script.own_folder:
            link_files(config, files)
    recorder, notes = Recorder(io, checkpoints.restored, checkpoints.meta), Notes()
    first = 1 if checkpoints.restored is None else checkpoints.restored + 1
    sources = opened(config.script, files, notes.refuse, first)
    text, patterns = TEXT in sources_of(config.script), config.script.patterns
    output = Output(config.script.step, notes.refuse, text=text, patterns=patterns, first=first)
    words = filled(config, places)
    if config.script.own_folder:
        words, folder = with_folders(config, words), files
        variables["PYTHONPATH"] = searched(variables, config.script.folder)
    if io.code is not None:
        words = redirected(config, words, io.code)
        variables["PYTHONPATH"] = searched(variables, str(io.code / HOOK))
    started = time.time()
    script = Script(words, folder, variables, needle=b"" if text or patterns else b"{")
    is_interrupted = Watch(script, output, sources, recorder, checkpoints).follow(io, config.script)
    for note in recorder.notes:
        notes.add(note)
    if is_interrupted:
        return Outcome(INTERRUPTED)
    if script.code:
        raise _failure(script, words, config.script)
    if not recorder.has_logged:
        error = nothing_read(config.script, files, started, script.tail, notes.all)
        error.where = masked(shlex.join(words))
        raise error
    if not recorder.has_new and (elsewhere := moved(config.script, files, started)):
        raise elsewhere
    return Outcome(FINISHED, {"notes": "; ".join(notes.all)} if notes.all else {})


@dataclass
class Watch:
    """What is followed while a script runs. `sources`: the files with its metrics, besides its output."""

    script: Script
    output: Output
    sources: list[Source]
    recorder: Recorder
    checkpoints: CheckpointFolder

    def follow(self, io: RunIO, config: ScriptConfig) -> bool:
        """Log metrics and keep checkpoints until the script has ended. Returns True if it was asked to stop.

        Raises RunError if a limit of the script has passed.
        """
        limits, is_running = Limits(config, io.files), True
        failure, kill_at, goes_on, lingers = None, math.inf, False, False
        try:
            while is_running:
                is_running = self.script.code is None
                beat()  # the limits of the script count, not that of the trainer
                ended = time.time()
                for line in self.script.output(TICK) if is_running else self.script.rest_of_output():
                    found = [*self.output.read(*line)]
                    self._add(found)
                    goes_on = goes_on or bool(not is_running and found and line.time > ended + PAUSE)
                was_cut_off = not is_running and bool(kill_at < math.inf or self.script.code)
                lingers = not is_running and not was_cut_off and self._lingers(io.files)
                for source in self.sources:
                    with suppress(RunError) if was_cut_off else nullcontext():  # it may have left half a file
                        self._add(source.new(is_last=not is_running))
                if not is_running and kill_at == math.inf:
                    self._add(self.output.end())
                self._log(not is_running, keeps=not is_running and kill_at < math.inf)
                if is_running and kill_at == math.inf:
                    failure = limits.passed(self.script.heard)
                    if failure or io.should_stop():
                        self.script.ask_to_end()
                        kill_at = time.monotonic() + config.grace
                elif is_running and time.monotonic() >= kill_at:
                    print(
                        f"[plat: the script did not end within {config.grace:g} s after SIGTERM: SIGKILL]", flush=True
                    )
                    self.script.kill()
        finally:
            if self.script.code is None:
                self.script.kill()
            self.script.close()
        if lingers or (goes_on and self.script.is_held and kill_at == math.inf and not self.script.code):
            what = "the script went on in the background when its first process had ended, and was cut off"
            failure = RunError(
                what, fix="run it in the foreground: without & and nohup, or with `wait` as the last line"
            )
        if failure:
            raise failure
        return kill_at < math.inf

    def _lingers(self, files: Path) -> bool:
        """Return True if processes that the ended script has left go on to write metrics into files."""
        if not marked("PLAT_RUN_DIR", str(files)):
            return False
        found: list[Logged] = []
        for pause in (0.0, LINGER):
            time.sleep(pause)
            found = [logged for source in self.sources for logged in source.new()]
            self._add(found)
        return bool(found and marked("PLAT_RUN_DIR", str(files)))

    def _add(self, found: Iterable[Logged]) -> None:
        for logged in found:
            self.recorder.add(logged)

    def _log(self, has_ended: bool, keeps: bool) -> None:
        """Log the metrics that came in. Those after a change of checkpoint files wait until their snapshot is taken.

        keeps   True: take the snapshot now, because the script was asked to stop and has ended
        """
        written = self.checkpoints.written_at()
        if written is not None:
            waits = not self.checkpoints.is_restless()
            has_turn = not has_ended and self.checkpoints.takes_turn()
            if waits or has_turn:
                self.recorder.log(until=written + SLACK)
            is_due = keeps if has_ended else has_turn or self.checkpoints.has_settled()
            if is_due and self.recorder.step is not None:
                self.checkpoints.keep(self.recorder.step, self.recorder.kept())
            if waits and not is_due and not has_ended:
                return
        self.recorder.finish() if has_ended else self.recorder.log()


def _failure(script: Script, words: list[str], config: ScriptConfig) -> RunError:
    """Return the error for a script that ended with an exit code other than 0, or by a signal."""
    code = script.code or 0
    how = f"exit code {code}" if code > 0 else f"signal {signal_name(-code).removeprefix('signal ')}"
    is_killed = code == -signal.SIGKILL
    how += ", sent from outside or by the kernel for lack of memory" if is_killed else ""
    what = f"the script ended with {how}" + (f": {script.reason}" if script.reason else "")
    fix = "its output is in the run's log" + ("; it may need less memory, or fewer --jobs" if is_killed else "")
    if "ModuleNotFoundError" in script.reason:
        fix = f"install it for {interpreter(config)}, or name the Python that has it: script.python: PATH"
    return RunError(what, where=masked(shlex.join(words)), fix=fix, failure_class="node" if is_killed else "error")


# Notice that a script takes too long, or that it shows no sign of life: no output and no new files.

Newest = tuple[int, int]


class Limits:
    """The limits `script.timeout` and `script.stall` of a script that starts now. `files`: the folder of its files."""

    def __init__(self, config: ScriptConfig, files: Path) -> None:
        self._config, self._files = config, files
        self._started = self._alive = time.monotonic()
        self._newest = _newest(files)

    def passed(self, heard: float) -> RunError | None:
        """Return the error for a limit that has passed, None if there is none. `heard`: when output last came."""
        now, limit, silence = time.monotonic(), self._config.timeout, self._config.stall
        if 0 < limit < now - self._started:
            what = f"the script still ran after {limit:g} s, its script.timeout"
            return RunError(what, fix="raise script.timeout, then `plat retry`; the output is in the run's log")
        self._alive = max(self._alive, heard)
        if not 0 < silence < now - self._alive:
            return None
        newest = _newest(self._files)  # looked at only now, because there may be many files
        if newest != self._newest:
            self._newest, self._alive = newest, now
            return None
        what = f"the script had no output and wrote no file for {silence:g} s"
        fix = "find where it hangs, or raise script.stall if it needs that long"
        return RunError(what, fix=fix, failure_class="stalled")


def _newest(folder: Path) -> Newest:
    """Return the number of files below a folder and the newest of their times."""
    times = [0]
    for parent, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                times.append(os.stat(f"{parent}/{name}").st_mtime_ns)
    return len(times), max(times)


# Collect what could not be read of a script: once each, in the run's log and in its result.

MOST = 20  # notes of one run
LONGEST = 300  # characters


class Notes:
    """The notes of one attempt. `all`: in their order."""

    def __init__(self) -> None:
        self.all: list[str] = []

    def refuse(self, what: str, where: str, fix: str) -> None:
        """Note what cannot be read, where, and how to mend it."""
        self.add(f"{where}: {what}" + (f"; {fix}" if fix else ""))

    def add(self, text: str) -> None:
        """Add a sentence, and print it into the run's log. At most MOST are kept."""
        text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
        if text not in self.all and len(self.all) < MOST:
            self.all.append(text)
            print(f"[plat: {text}]", flush=True)
