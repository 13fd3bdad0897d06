"""The dispatcher `--on ray` as `plat.dispatch.registry` finds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plat.dispatch.dispatcher import Dispatcher
from plat.dispatch.ray import ray_refresh
from plat.dispatch.ray.jobs import JobsClient
from plat.dispatch.ray.ray_settings import read_settings
from plat.dispatch.ray.search_dispatcher import SearchDispatcher
from plat.dispatch.ray.tune_dispatcher import TuneDispatcher
from plat.dispatch.setting import SearchCall, Setting, TaskKey, TaskState, cannot_detach
from plat.extras import require_extra
from plat.store.coordination.submissions import Submission
from plat.store.home import Home
from plat.words.outcomes import CANCELLED


class RayDispatcher(TuneDispatcher):
    """Runs on a Ray cluster, or in a private Ray of this machine, in the hands of Ray Tune."""

    executes_searches = True

    @classmethod
    def check_settings(cls, cluster: Sequence[str], detach: bool) -> None:
        """Raise SpecError for a wrong setting, if Ray is not installed, or for `detach` with a private Ray."""
        require_extra("ray", "--on ray", "--on")
        if read_settings(cluster).is_local and detach:
            raise cannot_detach()

    @classmethod
    def check_reachable(cls, cluster: Sequence[str]) -> None:
        """Raise SchedulerError if no cluster answers, SpecError for a wrong setting. A private Ray is started later."""
        settings = read_settings(cluster)
        if not settings.is_local:
            JobsClient(settings)

    @classmethod
    def task_states(cls, home: Home, note: bool) -> Mapping[TaskKey, TaskState]:
        """Return {}: the trials keep the files of their runs up to date."""
        return ray_refresh.task_states(home, note)

    @classmethod
    def end_tasks(cls, tasks: Sequence[tuple[Submission, int]]) -> None:
        """Record in the submissions that those of these tasks that have not begun are over, as "cancelled".

        A task that has begun is left alone: it reads the cancel marks of its runs.
        """
        for submission, task in tasks:
            if not submission.starts(task).exists():
                submission.note_over(CANCELLED, "cancelled", task)

    @classmethod
    def open_search(cls, setting: Setting, search: SearchCall) -> Dispatcher:
        """Open Ray for a search; raise SpecError for a wrong setting."""
        return SearchDispatcher(setting, search)
