"""The command line, a search and the report count the same events of done runs and of what a checkpoint covers.

Of an unfinished run, the command line and a search also count what the newest attempt has logged since.
"""

import numpy
import pytest
from toy_runs import toy_run

from plat.app.entries import entry_in
from plat.app.run_facts import RunFacts
from plat.peak import peak_of
from plat.search.trial_curve import Curves
from plat.store.disk.durable import to_checked_json
from plat.store.home import Home
from plat.store.mlflow.run_record import read_record
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory.attempts import new_attempt
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_io import FileRunIO
from plat.store.run_directory.state import run_state
from plat.trainer.api import HEADLINE, State


@pytest.fixture
def home(tmp_path):
    return Home(tmp_path / "home").create()


@pytest.fixture
def paths(home):
    return create(home, toy_run(), "a", code=CodeState())


def attempt(paths, values, saved):
    """Write an attempt that logs `values` (step -> success) and saves a checkpoint at one of the steps."""
    io = FileRunIO(paths, new_attempt(paths, len(paths.attempts()) + 1), paths.root / "cache", lambda: False)
    io.restore()
    for step, value in values.items():
        io.log(step, {HEADLINE: value})
        if step == saved:
            io.save(step, State({"x": numpy.zeros(1)}, {}))
    io.close()


def in_command_line(home, paths):
    return dict(RunFacts(home, entry_in(paths)).curve(HEADLINE))


def in_search(paths):
    return Curves(paths, [HEADLINE]).update()[HEADLINE]


def in_report(paths):
    return {row.step: row.value for row in read_record(paths).metrics if row.key == HEADLINE}


def test_a_resumed_run_has_one_history(home, paths):
    attempt(paths, {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}, saved=2)
    followed = Curves(paths, [HEADLINE])
    assert followed.update()[HEADLINE] == in_search(paths) == in_command_line(home, paths)
    assert in_search(paths) == {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}  # the newest attempt, covered or not
    assert in_report(paths) == {0: 0.0, 1: 0.1, 2: 0.2}
    attempt(paths, {3: 0.7}, saved=None)
    expected = {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.7}  # what attempt 1 logged behind its checkpoint is done again
    assert followed.update()[HEADLINE] == in_search(paths) == in_command_line(home, paths) == expected
    assert in_report(paths) == {0: 0.0, 1: 0.1, 2: 0.2}
    attempt(paths, {3: 0.8, 4: 0.5}, saved=4)
    expected = {0: 0.0, 1: 0.1, 2: 0.2, 3: 0.8, 4: 0.5}
    assert followed.update()[HEADLINE] == in_search(paths) == in_command_line(home, paths) == expected
    assert in_report(paths) == expected
    paths.result.write_bytes(to_checked_json({"id": paths.id, "outcome": "finished", "attempt": 3}))
    assert followed.update()[HEADLINE] == in_search(paths) == in_command_line(home, paths) == expected


def test_a_done_run_has_nothing_that_no_result_covers(home, paths):
    attempt(paths, {0: 0.0, 1: 0.1, 2: 0.2}, saved=2)
    attempt(paths, {3: 0.9}, saved=None)
    paths.result.write_bytes(to_checked_json({"id": paths.id, "outcome": "finished", "attempt": 1, "step": 2}))
    assert in_search(paths) == in_command_line(home, paths) == {0: 0.0, 1: 0.1, 2: 0.2}


def test_a_resumed_run_keeps_its_success_until_it_is_evaluated_again(paths):
    attempt(paths, {0: 0.1, 1: 0.2}, saved=1)
    attempt(paths, {}, saved=None)
    assert run_state(paths).success == 0.2


def test_the_peak_is_the_earliest_of_equal_values_and_never_nan():
    nan = float("nan")
    assert peak_of([(0, nan), (1, 0.5), (2, 0.7), (3, 0.7), (4, 0.6)]) == (2, 0.7)
    assert peak_of([(0, nan)]) is None and peak_of([]) is None
