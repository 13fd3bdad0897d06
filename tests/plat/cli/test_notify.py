"""`--notify`: the command learns what has happened, and never fails the sweep."""

from __future__ import annotations

import pytest
from cli_files import GUESSING
from toy_runs import toy_run

from plat.cli.screen import notify
from plat.cli.screen.notify import Notifier
from plat.dispatch.sweep_ends import RunEnd, SweepReport
from plat.store.home import Home

RECORD = "printf '%s\\n' \"$PLAT_EVENT $PLAT_RUN_ID $PLAT_OUTCOME $PLAT_DONE/$PLAT_RUNS $PLAT_EXIT_CODE\" >> {}"


@pytest.fixture
def report():
    runs = [toy_run(seed=0), toy_run(seed=1, mischief="error")]
    ends = [RunEnd(runs[0], "done", "finished"), RunEnd(runs[1], "failed", "failed:error")]
    return SweepReport({end.run.id: end for end in ends})


def test_it_is_called_for_failures_and_for_the_end(executed, home, report, tmp_path):
    runs = [executed(seed=0), executed(seed=1, mischief="error")]
    notifier = Notifier(RECORD.format(tmp_path / "log"), Home(home), [])
    for end in report.ends.values():
        notifier.run_ended(end.run)
    notifier.sweep_ended(report, 3)
    lines = sorted((tmp_path / "log").read_text().splitlines())
    assert lines == [f"run_failed {runs[1].id} failed:error / ", "sweep_ended   1/2 3"]


@pytest.mark.parametrize(("command", "warning"), [("exit 7", "exit code 7"), ("sleep 60", "longer than 0 s")])
def test_a_command_that_fails_or_never_ends_is_a_warning(home, report, capsys, monkeypatch, command, warning):
    monkeypatch.setattr(notify, "PATIENCE", 0.3)
    Notifier(command, Home(home), []).sweep_ended(report, 0)
    assert warning in capsys.readouterr().err


def test_without_a_command_nothing_happens(home, report, capsys):
    notifier = Notifier(None, Home(home), [])
    notifier.run_ended(next(iter(report.ends.values())).run)
    notifier.sweep_ended(report, 0)
    assert capsys.readouterr() == ("", "")


def test_a_sweep_calls_it(plat, spec, home, toy, tmp_path):
    path = spec(GUESSING.replace("climb.games: 5", "climb.games: 0"))  # a division by zero
    code, _, err = plat("sweep", path, "--notify", RECORD.format(tmp_path / "log") + "; exit 1")
    assert code == 3 and "warning: --notify: the command ended with exit code 1" in err
    events = [line.split()[0] for line in (tmp_path / "log").read_text().splitlines()]
    assert sorted(events) == ["run_failed", "run_failed", "sweep_ended"]
