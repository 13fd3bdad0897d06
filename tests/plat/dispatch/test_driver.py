"""The driver with a source that gives further runs as earlier ones end; dispatchers by name; resources."""

import contextlib
import io
import os
import signal

import pytest
from rich.console import Console
from toy_runs import toy_run

from plat.dispatch import registry
from plat.dispatch.driver import sweep
from plat.dispatch.progress import Live, Progress
from plat.dispatch.scheduled import ScheduledDispatcher
from plat.errors import SpecError
from plat.trainer.resources import Resources


class Search:
    """Two runs under way at once, six in all, each asked for when an earlier one has ended."""

    def __init__(self, seeds):
        self.seeds, self.under_way, self.most, self.ends = list(seeds), 0, 0, []

    def next(self):
        given = [toy_run(seed=self.seeds.pop(0)) for _ in range(min(2 - self.under_way, len(self.seeds)))]
        self.under_way += len(given)
        self.most = max(self.most, self.under_way)
        return given

    def ended(self, end):
        self.under_way -= 1
        self.ends.append((end.run.axes["seed"], end.state, end.fresh))

    @property
    def exhausted(self):
        return not self.seeds


def test_a_source_that_asks_gives_further_runs_as_earlier_ones_end(home):
    sweep(home, [toy_run(seed=2)], 1)
    source = Search([0, 1, 2, 3, 4, 3])
    report = sweep(home, source, 2)
    assert report.counts() == {"done": 5} and report.exit_code == 0
    assert source.most == 2 and source.exhausted
    assert sorted(seed for seed, *_ in source.ends) == [0, 1, 2, 3, 3, 4]
    assert {state for _, state, _ in source.ends} == {"done"}
    assert [(seed, fresh) for seed, _, fresh in source.ends if seed == 2] == [(2, False)]
    assert len(home.run(toy_run(seed=3).id).attempts()) == 1


def test_a_source_hears_of_runs_that_fail(home):
    class Failing(Search):
        def next(self):
            return [toy_run(seed=run.axes["seed"], mischief="error") for run in super().next()]

    source = Failing(range(3))
    assert sweep(home, source, 2).counts() == {"failed": 3}
    assert sorted(source.ends) == [(seed, "failed", True) for seed in range(3)]


def test_a_dispatcher_is_chosen_by_name(home):
    with pytest.raises(SpecError, match="unknown dispatcher 'locl'") as error:
        sweep(home, [toy_run()], on="locl")
    assert "did you mean 'local'" in error.value.fix and not list(home.runs.iterdir())


def test_local_runs_cannot_be_left(home):
    with pytest.raises(SpecError, match="end when the command that started them ends"):
        sweep(home, [toy_run()], detach=True)
    with pytest.raises(SpecError, match="this machine has no scheduler"):
        sweep(home, [toy_run()], cluster=["cluster=lab"])
    assert not home.logs.exists()


def test_the_cursor_is_shown_again_when_there_is_nothing_to_do_and_when_no_dispatcher_opens(home):
    sweep(home, [toy_run()], 1)
    for arguments in ({}, {"cluster": ["cluster=lab"]}):
        terminal = io.StringIO()
        runs = [toy_run(seed=1)] if arguments else [toy_run()]
        with pytest.raises(SpecError) if arguments else contextlib.nullcontext():
            sweep(home, runs, progress=Live(Console(file=terminal, force_terminal=True)), **arguments)
        assert terminal.getvalue().count("\x1b[?25l") == terminal.getvalue().count("\x1b[?25h") == 1


def test_resources_are_typed():
    assert Resources.of({"threads": 4}).as_dict() == {"threads": 4, "gpus": 0}
    assert Resources.of(Resources(2, 1, minutes=90)).as_dict() == {"threads": 2, "gpus": 1, "minutes": 90}
    with pytest.raises(SpecError, match="unknown resource 'gpu'") as error:
        Resources.of({"gpu": 1})
    assert "did you mean 'gpus'" in error.value.fix
    for wrong in ({"threads": -1}, {"gpus": "one"}, {"partition": 3}, {"threads": True}):
        with pytest.raises(SpecError, match="must be"):
            Resources.of(wrong)


class Interrupted(ScheduledDispatcher):
    """A scheduler that takes nothing; this process gets a SIGINT just before the driver asks whether to go on."""

    scheduler, farewell = "none", "stopped following"

    def _refresh(self):
        return True

    def _hand_over(self, ready):
        self._to_submit += ready

    def active(self):
        if not self.stopping and self._refreshed is not None:
            os.kill(os.getpid(), signal.SIGINT)
        return super().active()


def test_an_interruption_between_two_rounds_is_answered(home, monkeypatch):
    texts = []

    class Messages(Progress):
        def message(self, text):
            texts.append(text)

    monkeypatch.setattr(registry, "open_dispatcher", lambda name, setting: Interrupted(setting, refresh_every=60.0))
    report = sweep(home, [toy_run()], progress=Messages())
    assert report.interrupted and report.exit_code == 130
    assert texts == ["stopped following"]
