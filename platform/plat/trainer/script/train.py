"""Run a script as a run of plat: start it, log its metrics, keep its checkpoints, and end it when asked."""

from __future__ import annotations

import contextlib
import json
import queue
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from plat.errors import RunError
from plat.trainer.api import Outcome, RunIO
from plat.trainer.script.checkpoints import CheckpointFolder
from plat.trainer.script.command import arguments, filled
from plat.trainer.script.config import TENSORBOARD, ScriptConfig, ScriptRunConfig
from plat.trainer.script.metrics import Lines, Logged, MetricsFile
from plat.trainer.script.process import Script
from plat.trainer.script.tensorboard import PATTERN, EventFiles
from plat.words.outcomes import FINISHED, INTERRUPTED

TICK = 0.1  # seconds between two looks at files
SLACK = 0.02  # seconds: the times of files are up to some milliseconds behind the clock
HOW_TO_LOG = 'print lines of JSON, such as {"step": 1, "loss": 0.5}, or call plat.log(step, loss=0.5)'


class Recorder:
    """Log metrics in the order of their times, and none that an earlier attempt has logged."""

    def __init__(self, io: RunIO, restored: int | None) -> None:
        self._io, self._restored = io, restored
        self._waiting: list[Logged] = []
        self.step = restored  # the newest that counts, None before the first
        self.has_logged = restored is not None

    def add(self, logged: Logged | None) -> None:
        """Keep the metrics of one line until the next `log`."""
        if logged is not None:
            self.has_logged = True
            if self._restored is None or logged.step > self._restored:
                self._waiting.append(logged)

    def log(self, until: float | None = None) -> None:
        """Log what waits and is from before `until`, a time; None: all. Raises RunError if a step is below another."""
        while self._waiting and (until is None or self._waiting[0].time <= until):
            logged = self._waiting.pop(0)
            self._io.log(logged.step, logged.metrics)
            self.step = logged.step


def train(config: ScriptRunConfig, io: RunIO) -> Outcome:
    """Run the script of a config until it ends or the run is asked to stop.

    Raises RunError if the script cannot be started, fails, logs no metric, or logs a lower step after a higher one.
    """
    folder = Path(config.script.folder)
    if not folder.is_dir():
        fix = "sweep again from where the script is now, which records the new folder"
        raise RunError("the folder of the script is gone", where=str(folder), fix=fix)
    checkpoints = CheckpointFolder(io.files / "checkpoints", io)
    recorder = Recorder(io, checkpoints.restored)
    places = {"run_dir": io.files, "checkpoint_dir": io.files / "checkpoints", "config": io.files / "config.json"}
    logged_by_plat, step = io.files / "metrics.jsonl", config.script.step
    sources: list[MetricsFile | EventFiles] = [MetricsFile(logged_by_plat, step)]
    old = [logged_by_plat]
    if config.script.metrics == TENSORBOARD:
        sources.append(EventFiles(io.files))
        old += io.files.rglob(PATTERN)
    elif config.script.metrics:
        sources.append(MetricsFile(io.files / config.script.metrics, step))
        old.append(io.files / config.script.metrics)
    for path in old:  # an earlier attempt's: what counts of them is in its events
        path.unlink(missing_ok=True)
    places["config"].write_text(json.dumps(arguments(config), indent=1) + "\n")
    words = filled(config, {name: str(path) for name, path in places.items()})
    script = Script(words, folder, _environment(config, places, logged_by_plat))
    if Watch(script, sources, recorder, checkpoints).follow(io, config.script):
        return Outcome(INTERRUPTED)
    if script.code:
        raise _failure(script, words)
    if not recorder.has_logged:
        raise RunError("the script ended well and logged no metric", where=" ".join(words), fix=HOW_TO_LOG)
    return Outcome(FINISHED)


@dataclass
class Watch:
    """What is followed while a script runs. `sources`: the files with its metrics, besides its output."""

    script: Script
    sources: list[MetricsFile | EventFiles]
    recorder: Recorder
    checkpoints: CheckpointFolder

    def follow(self, io: RunIO, config: ScriptConfig) -> bool:
        """Log metrics and keep checkpoints until the script has ended. Returns True if it was asked to stop."""
        lines, is_stopping, is_running = Lines(config.step), False, True
        try:
            while is_running:
                is_running = self.script.code is None
                if not is_running:
                    self.script.wait_for_output()
                for text, at in _output(self.script, TICK if is_running else 0.0):
                    self.recorder.add(lines.of_text(text, at))
                for source in self.sources:
                    for logged in source.new(is_last=not is_running):
                        self.recorder.add(logged)
                self._log(not is_running, keeps=not is_running and is_stopping)
                if is_running and not is_stopping and io.should_stop():
                    is_stopping = True
                    self.script.end(config.grace)
        finally:
            if self.script.code is None:
                self.script.end(0.0)
        return is_stopping

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
                self.checkpoints.keep(self.recorder.step)
            if waits and not is_due and not has_ended:
                return
        self.recorder.log()


def _output(script: Script, seconds: float) -> Iterator[tuple[bytes, float]]:
    """Yield the lines of the output that come within `seconds`; return early if the script ends."""
    until = time.monotonic() + seconds
    with contextlib.suppress(queue.Empty):
        while (line := script.lines.get(timeout=max(0.001, until - time.monotonic()))) is not None:
            yield line
        script.wait(until - time.monotonic())


def _environment(config: ScriptRunConfig, places: dict[str, Path], metrics: Path) -> dict[str, str]:
    return {
        "PLAT_RUN_DIR": str(places["run_dir"]),
        "PLAT_CHECKPOINT_DIR": str(places["checkpoint_dir"]),
        "PLAT_CONFIG": str(places["config"]),
        "PLAT_SEED": str(config.seed),
        "PLAT_METRICS": str(metrics),
        "OMP_NUM_THREADS": str(config.script.threads),
        "PYTHONUNBUFFERED": "1",  # lines of the output arrive when they are printed
    }


def _failure(script: Script, words: list[str]) -> RunError:
    """Return the error for a script that ended with an exit code other than 0, or by a signal."""
    code = script.code or 0
    how = f"exit code {code}" if code > 0 else f"signal {signal.Signals(-code).name}"
    what = f"the script ended with {how}" + (f": {script.last}" if script.last else "")
    failure_class = "node" if code == -signal.SIGKILL else "error"
    return RunError(what, where=" ".join(words), fix="its output is in the run's log", failure_class=failure_class)
