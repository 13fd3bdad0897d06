"""The Tuner: its trials are the tasks of submissions."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray import tune
from ray.tune.search import Searcher

from plat.dispatch.ray.trial import execute, resources
from plat.dispatch.setting import STOP
from plat.store.coordination.submissions import Submission
from plat.words.outcomes import INTERRUPTED, failed

RESTARTS = 5  # by Tune, of a trial whose worker or node was lost
LOOK_EVERY = 2.0  # seconds between two looks for tasks that are over before they began
Task = tuple[Submission, int]


class Tasks(Searcher):  # type: ignore[misc]
    """Suggest the tasks of submissions. `add` gives it a submission; None: there will be no further one."""

    def __init__(self) -> None:
        super().__init__()
        self.live: dict[str, Task] = {}  # by trial id: those that wait or run
        self.closed = False
        self.submissions: list[Submission] = []
        self._waiting: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()

    def add(self, submission: Submission | None) -> None:
        """Queue the tasks of a submission that are not over."""
        if submission is None:
            self._waiting.put(None)
            return
        self.submissions.append(submission)
        for number, needs in enumerate(submission.facts()["needs"]):
            if not submission.is_over(number):
                self._waiting.put({"submission": str(submission.root), "task": number, "needs": needs})

    def stop(self) -> None:
        """Ask the runs to save and stop. The tasks that have not begun are over, and none is begun."""
        self.add(None)
        for submission in self.submissions:
            stop_tasks(submission)

    def look(self) -> None:
        """Do nothing. It is called every LOOK_EVERY seconds."""

    def execute(self, folder: Path, jobs: int | None) -> None:
        """Execute all tasks as trials of one Tuner, at most `jobs` at a time. Tune's files are in `folder`."""
        run_trials(self, execute, tune.schedulers.FIFOScheduler(), folder, jobs)

    def suggest(self, trial_id: str) -> Any:
        """Return the config of the next trial; None if there is none now. Waits while no trial is live."""
        try:
            config = None if self.closed else self._waiting.get(block=not self.live)
        except queue.Empty:
            return None
        if config is None:
            self.closed = True
            return Searcher.FINISHED
        self.live[trial_id] = Submission(Path(config["submission"])), config["task"]
        return config

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Note that a trial has ended; one with an error has been started too often."""
        task = self.live.pop(trial_id, None)
        if error and task is not None:
            task[0].note_over(failed("node"), f"its trial failed {RESTARTS + 1} times; see its error.txt", task[1])

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: Tune stores the experiment, but plat's own records decide what is left to do."""
        return {}

    def save(self, checkpoint_path: str) -> None:
        """Save nothing."""

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing."""


class NothingLeft(tune.Stopper):  # type: ignore[misc]
    """End the experiment when it has only trials that wait for resources and whose tasks are over (cancelled)."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._looked = 0.0

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        if time.monotonic() - self._looked < LOOK_EVERY:
            return False
        self._looked = time.monotonic()
        self._tasks.look()
        live = self._tasks.live.values()
        return self._tasks.closed and all(each.is_over(task) and not each.starts(task).exists() for each, task in live)


def stop_tasks(submission: Submission) -> None:
    """Ask the trials of a submission to let their runs save and stop; those that have not begun are over."""
    (submission.root / STOP).touch()
    for number in range(len(submission.tasks())):
        if not submission.starts(number).exists():
            submission.note_over(INTERRUPTED, "asked to stop before it began", number)


def run_trials(
    tasks: Tasks,
    trainable: Callable[[dict[str, Any]], None],
    scheduler: tune.schedulers.TrialScheduler,
    folder: Path,
    jobs: int | None,
) -> None:
    """Execute what `tasks` suggests as trials of one Tuner, at most `jobs` at a time. Tune's files are in `folder`."""
    tune.Tuner(
        tune.with_resources(trainable, resources),
        tune_config=tune.TuneConfig(
            search_alg=tasks,
            scheduler=scheduler,
            num_samples=-1,
            max_concurrent_trials=jobs,
            reuse_actors=True,
            trial_name_creator=_name,
            trial_dirname_creator=_name,
        ),
        run_config=tune.RunConfig(
            name=folder.name,
            storage_path=str(folder.parent.absolute()),
            failure_config=tune.FailureConfig(max_failures=RESTARTS),
            stop=NothingLeft(tasks),
            verbose=0,
        ),
    ).fit()


def _name(trial: Any) -> str:
    return f"{Path(trial.config['submission']).name}_{trial.config['task']}"
