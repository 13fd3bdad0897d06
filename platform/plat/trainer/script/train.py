"""Run a script as a run of plat: start it, log its metrics, keep its checkpoints, and end it when asked."""

from __future__ import annotations

import json
import math
import shlex
import signal
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from plat.errors import RunError, os_errors_as
from plat.trainer.api import Outcome, RunIO
from plat.trainer.heartbeat import beat
from plat.trainer.script.checkpoints import CheckpointFolder
from plat.trainer.script.command import arguments, filled, filled_variables, interpreter, search_path
from plat.trainer.script.config import MLFLOW, TENSORBOARD, ScriptConfig, ScriptRunConfig
from plat.trainer.script.limits import Limits
from plat.trainer.script.metrics import Lines, Logged, MetricsFile
from plat.trainer.script.mlflow_metrics import NAME, MlflowFile, empty_store
from plat.trainer.script.process import Script
from plat.trainer.script.tensorboard import PATTERN, EventFiles
from plat.words.outcomes import FINISHED, INTERRUPTED

TICK = 0.1  # seconds between two looks at files
SLACK = 0.02  # seconds: the times of files are up to some milliseconds behind the clock
HOW_TO_LOG = {  # script.metrics -> advice
    "": 'print lines of JSON, such as {"step": 1, "loss": 0.5}, or call plat.log(step, loss=0.5)',
    TENSORBOARD: "write the event files of TensorBoard below PLAT_RUN_DIR",
    MLFLOW: "log with MLflow's client, and do not set another tracking URI than MLFLOW_TRACKING_URI",
}

Source = MetricsFile | EventFiles | MlflowFile


class Recorder:
    """Log metrics in the order of their times, and none that an earlier attempt has logged."""

    def __init__(self, io: RunIO, restored: int | None) -> None:
        self._io, self._restored = io, restored
        self._waiting: deque[Logged] = deque()
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
            logged = self._waiting.popleft()
            if self.step is not None and logged.step < self.step:
                what = f"the script logged step {logged.step} after step {self.step}"
                raise RunError(what, fix="let steps rise; a script that starts again resumes from PLAT_CHECKPOINT_DIR")
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
    files = io.files
    advice = "free some disk space, or make the folder writable, then `plat retry`"
    with os_errors_as(RunError, "cannot prepare the folder of the script's files", files, advice):
        checkpoints = CheckpointFolder(files / "checkpoints", io)
        places = {"run_dir": files, "checkpoint_dir": files / "checkpoints", "config": files / "config.json"}
        places["config"].write_text(json.dumps(arguments(config), indent=1) + "\n")
        sources, metrics = _sources(config.script, files)
        of_the_run = {name: str(path) for name, path in places.items()}
        of_the_run["checkpoint"] = "" if checkpoints.restored is None else of_the_run["checkpoint_dir"]
        variables = _environment(config, of_the_run, metrics)
        if config.script.metrics == MLFLOW:
            variables |= empty_store(files, io.cache)
            sources.append(MlflowFile(files / NAME))
    recorder = Recorder(io, checkpoints.restored)
    words = filled(config, of_the_run)
    script = Script(words, folder, variables)
    if Watch(script, sources, recorder, checkpoints).follow(io, config.script):
        return Outcome(INTERRUPTED)
    if script.code:
        raise _failure(script, words, config.script)
    if not recorder.has_logged:
        what = "the script ended well and logged no metric" + (f"; its last line: {script.last}" if script.last else "")
        name = config.script.metrics
        fix = HOW_TO_LOG.get(name, f"write lines with numbers into the file {name} below PLAT_RUN_DIR")
        raise RunError(what, where=shlex.join(words), fix=fix)
    return Outcome(FINISHED)


@dataclass
class Watch:
    """What is followed while a script runs. `sources`: the files with its metrics, besides its output."""

    script: Script
    sources: list[Source]
    recorder: Recorder
    checkpoints: CheckpointFolder

    def follow(self, io: RunIO, config: ScriptConfig) -> bool:
        """Log metrics and keep checkpoints until the script has ended. Returns True if it was asked to stop.

        Raises RunError if a limit of the script has passed.
        """
        lines, limits, is_running = Lines(config.step), Limits(config, io.files), True
        failure, kill_at = None, math.inf
        try:
            while is_running:
                is_running = self.script.code is None
                beat()  # the limits of the script count, not that of the trainer
                for text, at in self.script.output(TICK) if is_running else self.script.rest_of_output():
                    self.recorder.add(lines.of_text(text, at))
                for source in self.sources:
                    for logged in source.new(is_last=not is_running):
                        self.recorder.add(logged)
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
        if failure:
            raise failure
        return kill_at < math.inf

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


def _sources(config: ScriptConfig, files: Path) -> tuple[list[Source], Path]:
    """Return the files with metrics besides the output, without an earlier attempt's, and the path for `plat.log`."""
    logged_by_plat = files / "metrics.jsonl"
    sources: list[Source] = [MetricsFile(logged_by_plat, config.step)]
    old = [logged_by_plat]
    if config.metrics == TENSORBOARD:
        sources.append(EventFiles(files))
        old += files.rglob(PATTERN)
    elif config.metrics and config.metrics != MLFLOW:
        sources.append(MetricsFile(files / config.metrics, config.step))
        old.append(files / config.metrics)
    for path in old:  # what counts of them is in the events of that attempt
        path.unlink(missing_ok=True)
    return sources, logged_by_plat


def _environment(config: ScriptRunConfig, of_the_run: dict[str, str], metrics: Path) -> dict[str, str | None]:
    return {
        "PATH": search_path(config.script),
        "OMP_NUM_THREADS": str(config.script.threads),
        "PYTHONUNBUFFERED": "1",  # lines of the output arrive when they are printed
        **filled_variables(config, of_the_run),
        "PLAT_RUN_DIR": of_the_run["run_dir"],
        "PLAT_CHECKPOINT_DIR": of_the_run["checkpoint_dir"],
        "PLAT_CONFIG": of_the_run["config"],
        "PLAT_SEED": str(config.seed),
        "PLAT_METRICS": str(metrics),
    }


def _failure(script: Script, words: list[str], config: ScriptConfig) -> RunError:
    """Return the error for a script that ended with an exit code other than 0, or by a signal."""
    code = script.code or 0
    how = f"exit code {code}" if code > 0 else f"signal {_signal_name(-code)}"
    is_killed = code == -signal.SIGKILL
    how += ", sent from outside or by the kernel for lack of memory" if is_killed else ""
    what = f"the script ended with {how}" + (f": {script.last}" if script.last else "")
    fix = "its output is in the run's log" + ("; it may need less memory, or fewer --jobs" if is_killed else "")
    if "ModuleNotFoundError" in script.last:
        fix = f"install it for {interpreter(config)}, or name the Python that has it: script.python: PATH"
    return RunError(what, where=shlex.join(words), fix=fix, failure_class="node" if is_killed else "error")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return str(number)
