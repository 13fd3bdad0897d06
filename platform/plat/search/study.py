"""The study of a search, stored in `studies.db` of the home: an Optuna RDB storage, which Optuna's own tools open.

Promised: a trial is stored whole or not at all; a trial without values is resumed unchanged; one process at a time
changes a study; a study is never continued with another question.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

from plat.errors import HomeError, PlatError, SpecError
from plat.plain_files import is_special
from plat.search.search import Search
from plat.search.search_settings import make_sampler
from plat.store.disk.durable import create, locked
from plat.store.home import Home

if TYPE_CHECKING:
    from optuna.storages import RDBStorage
    from optuna.trial import FrozenTrial

QUESTION = "plat.question"  # attribute of a study: see `Search.question`
RUNS = "plat.runs"  # attributes of a trial: the ids of its runs, in the order of the seeds
REASON = "plat.reason"  # why the trial was pruned or failed
STEPS = "plat.iterations"  # iterations of training that the trial took


# Optuna calls a trial RUNNING until it has values, even when no process works on it.
WORDS = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "unfinished", "WAITING": "unfinished"}


def storage_uri(home: Home) -> str:
    """Return the storage address of a home's studies, as Optuna's tools take it (`--storage`)."""
    return f"sqlite:///{home.studies}"


@contextmanager
def open_study(home: Home, search: Search) -> Iterator[Study]:
    """Yield the study of a search, creating it if it is missing.

    Raises HomeError if another process searches it or the file of the studies is damaged, and SpecError if a study of
    this name has another question (see `Search.question`).
    """
    home.logs.mkdir(exist_ok=True)
    busy = HomeError(
        f"the study {search.name!r} is being searched by another process",
        where=str(home.studies),
        fix="wait for it to end, or end it: this command then resumes",
    )
    with locked(home.logs / f"study-{search.name}.lock", timeout=0, busy=busy):
        yield Study(home, search)


class Study:
    """One study and the operations that a search needs. `FrozenTrial` is Optuna's."""

    def __init__(self, home: Home, search: Search) -> None:
        self._search = search
        self._storage = open_storage(home)
        with _readable(home):
            self._study = _load(self._storage, search)
            directions = [objective.direction for objective in search.objectives]
            if [direction.name.lower() for direction in self._study.directions] != directions:
                raise ValueError("its directions differ from those of the objectives")
            _check_trials(self.trials(), len(directions), search.space.keys())

    def trials(self) -> list[FrozenTrial]:
        """Return every trial, by number. They are not copies: do not change them."""
        trials: list[FrozenTrial] = self._study.get_trials(deepcopy=False)
        return trials

    def suggest(self) -> FrozenTrial:
        """Return the next trial without storing it: the sampler works on a copy of the study in memory."""
        import optuna

        stored = self.trials()
        number = len(stored)
        directions = [objective.direction for objective in self._search.objectives]
        sampler = make_sampler(self._search.sampler, self._search.space, number)
        copy = optuna.create_study(directions=directions, sampler=sampler)
        copy.add_trials(stored)
        copy.ask({name: parameter.distribution() for name, parameter in self._search.space.items()})
        suggested: FrozenTrial = copy.get_trials(deepcopy=True)[number]
        return suggested

    def add(self, suggested: FrozenTrial, run_ids: Sequence[str]) -> FrozenTrial:
        """Store a suggested trial with the ids of its runs, in one transaction, and return it; its state is RUNNING."""
        suggested.set_user_attr(RUNS, list(run_ids))
        self._study.add_trial(suggested)
        return self.trials()[suggested.number]

    def report(self, number: int, step: int, value: float) -> FrozenTrial:
        """Store an intermediate value and return the updated trial."""
        self._storage.set_trial_intermediate_value(self._id(number), step, value)
        return self.trials()[number]

    def tell(self, number: int, values: Sequence[float], iterations: int) -> None:
        """Complete a trial; `values` are those of the objectives, in their order. Also stores its iterations."""
        self._set(number, {STEPS: iterations})
        self._study.tell(number, list(values))

    def give_up(self, number: int, state: Literal["PRUNED", "FAIL"], reason: str, iterations: int) -> None:
        """End a trial without values, as pruned or failed; store why, and the iterations of training that it took."""
        from optuna.trial import TrialState

        self._set(number, {STEPS: iterations, REASON: reason})
        self._study.tell(number, state=TrialState[state])

    def should_prune(self, pruner: Any, trial: FrozenTrial) -> bool:
        """Return True if the Optuna pruner stops the trial at the newest reported value."""
        return bool(pruner.prune(self._study, trial))

    def winners(self) -> list[FrozenTrial]:
        """Return the complete trial with the best value, or the Pareto front, each point once; [] if there is none."""
        try:
            best = self._study.best_trials if len(self._search.objectives) > 1 else [self._study.best_trial]
        except ValueError:  # no trial is complete
            return []
        points = {json.dumps(trial.params, sort_keys=True): trial for trial in reversed(best)}
        return sorted(points.values(), key=lambda trial: trial.number)

    def importance(self) -> dict[str, float]:
        """Return the share of each parameter in the variance of the first objective, by Optuna's fANOVA with seed 0.

        Covers complete trials. Return {} where Optuna finds none, for example if all have the same value.
        """
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances

        try:
            evaluator = FanovaImportanceEvaluator(seed=0)
            return dict(get_param_importances(self._study, evaluator=evaluator, target=lambda trial: trial.values[0]))
        except (ValueError, RuntimeError):
            return {}

    def _set(self, number: int, attributes: dict[str, Any]) -> None:
        for key, value in attributes.items():
            self._storage.set_trial_user_attr(self._id(number), key, value)

    def _id(self, number: int) -> int:
        return int(self._storage.get_trial_id_from_study_id_trial_number(self._study._study_id, number))


def count_states(home: Home, name: str) -> dict[str, int]:
    """Return "complete", "pruned", "failed" or "unfinished" -> number of trials, if any; {} without such a study."""
    import optuna

    storage = open_storage(home)
    try:
        study = optuna.load_study(study_name=name, storage=storage)
    except KeyError:
        return {}
    with _readable(home):
        return dict(Counter(WORDS[trial.state.name] for trial in study.get_trials(deepcopy=False)))


def open_storage(home: Home) -> RDBStorage:
    """Open Optuna's storage of a home, creating it if missing. Raises HomeError if it is damaged or no regular file."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if is_special(home.studies):  # opening a pipe would block
        fix = "move it away, or choose another home with --home DIR (or PLAT_HOME)"
        raise HomeError("the file of the studies is not a regular file", where=str(home.studies), fix=fix)
    if not home.studies.exists():
        create(home.studies, b"", sync=False)  # with the umask's permissions: SQLite gives none to the group
    with _readable(home):
        return optuna.storages.RDBStorage(storage_uri(home), engine_kwargs={"connect_args": {"timeout": 60}})


@contextmanager
def _readable(home: Home) -> Iterator[None]:
    """Raise HomeError for any exception in the block: Optuna raises arbitrary exceptions on a damaged file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)  # Optuna warns when it changes a trial
            yield
    except PlatError:
        raise
    except Exception as error:
        what = f"the file of the studies is damaged: {' '.join(str(error).split())[:200] or type(error).__name__}"
        fix = "bring it back from a copy, or move it away: a new study asks for the same runs, which are kept"
        raise HomeError(what, where=str(home.studies), fix=fix) from error


def _check_trials(trials: Sequence[FrozenTrial], objectives: int, parameters: Set[str]) -> None:
    """Raise ValueError unless every trial has its number, its runs, and the expected parameters and values."""
    for number, trial in enumerate(trials):
        runs = trial.user_attrs.get(RUNS)
        if trial.number != number:
            raise ValueError(f"trial {number} is missing")
        if not isinstance(runs, list) or not all(isinstance(run, str) for run in runs):
            raise ValueError(f"trial {number} does not name its runs")
        if trial.params.keys() != parameters:
            raise ValueError(f"the parameters of trial {number} differ from those of the search")
        if trial.state.name == "COMPLETE" and len(trial.values or ()) != objectives:
            raise ValueError(f"trial {number} has {len(trial.values or ())} values instead of {objectives}")


def _load(storage: RDBStorage, search: Search) -> Any:
    """Load or create the study. Raises SpecError if it was created for another question."""
    import optuna

    question = search.question()
    study = optuna.create_study(
        storage=storage,
        study_name=search.name,
        directions=[objective.direction for objective in search.objectives],
        load_if_exists=True,
        sampler=optuna.samplers.RandomSampler(0),  # unused: `suggest` makes its own
    )
    asked = study.user_attrs.get(QUESTION)
    if asked is None:
        study.set_user_attr(QUESTION, question)
        study.set_user_attr("plat.title", search.title)
        with warnings.catch_warnings(), contextlib.suppress(Exception):  # names for Optuna's dashboard, experimental
            warnings.simplefilter("ignore")
            study.set_metric_names([f"{objective.metric} ({objective.of})" for objective in search.objectives])
    elif asked != json.loads(json.dumps(question)):
        differing = [key for key in question if asked.get(key) != json.loads(json.dumps(question[key]))]
        raise SpecError(
            f"the study {search.name!r} was started with different settings: {', '.join(differing)}",
            where=str(search.path),
            fix=f"rename the file (the study is named after it), or remove the study: optuna delete-study --study-name "
            f"{search.name} --storage sqlite:///studies.db",
        )
    return study
