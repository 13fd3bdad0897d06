"""The dispatcher `--on ray` as `plat.dispatch.registry` finds it."""

from __future__ import annotations

from collections.abc import Sequence

from plat.dispatch.dispatcher import Dispatcher
from plat.dispatch.dispatcher_spec import DispatcherSpec, SearchCall, Setting, cannot_detach
from plat.dispatch.ray.jobs import JobsClient
from plat.dispatch.ray.ray_refresh import task_states
from plat.dispatch.ray.ray_settings import read_settings
from plat.dispatch.ray.search_dispatcher import SearchDispatcher
from plat.dispatch.ray.tune_dispatcher import TuneDispatcher
from plat.extras import require_extra
from plat.store.coordination.submissions import Submission
from plat.words.outcomes import CANCELLED


def check_settings(cluster: Sequence[str], detach: bool) -> None:
    """Raise SpecError for a wrong setting, if Ray is not installed, or for `detach` with a private Ray."""
    require_extra("ray", "--on ray", "--on")
    if read_settings(cluster).is_local and detach:
        raise cannot_detach()


def check_reachable(cluster: Sequence[str]) -> None:
    """Raise SchedulerError if no cluster answers, SpecError for a wrong setting. A private Ray is started later."""
    settings = read_settings(cluster)
    if not settings.is_local:
        JobsClient(settings)


def end_tasks(tasks: Sequence[tuple[Submission, int]]) -> None:
    """Record in the submissions that those of these tasks that have not begun are over, as "cancelled".

    A task that has begun is left alone: it reads the cancel marks of its runs.
    """
    for submission, task in tasks:
        if not submission.starts(task).exists():
            submission.note_over(CANCELLED, "cancelled", task)


def open_dispatcher(setting: Setting) -> TuneDispatcher:
    """Open Ray; raise SpecError for a wrong setting. Ray is asked when the first run is missing."""
    return TuneDispatcher(setting, read_settings(setting.cluster))


def open_search(setting: Setting, search: SearchCall) -> Dispatcher:
    """Open Ray for a search that goes on there; raise SpecError for a wrong setting."""
    return SearchDispatcher(setting, search)


SPEC = DispatcherSpec(
    open_dispatcher,
    open_search=open_search,
    check_settings=check_settings,
    check_reachable=check_reachable,
    end_tasks=end_tasks,
    task_states=task_states,
    on_this_machine=False,
)
