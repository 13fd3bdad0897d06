"""A search on every dispatcher: it makes the trials that it makes on this machine, and none twice."""

from __future__ import annotations

import pytest
from search_files import TOY_SEARCH

from plat.dispatch.driver import sweep
from plat.search.search_file import read_searches
from plat.search.study import open_study
from plat.search.trial_source import TrialSource
from plat.store.home import Home

pytestmark = [pytest.mark.cluster, pytest.mark.long]  # many short submissions, one after the other

SEARCH = f"{TOY_SEARCH}\nsampler: {{name: tpe, startup: 2}}\ntrials: 4\nseeds: range(2)\nconfirm: [10, 11, 12]\n"


def searched(home, search, **options):
    """Do what is left of a search, a trial at a time; how its runs ended, and the facts of its trials."""
    with open_study(home, search) as study:
        source = TrialSource(home, search, study, at_once=1)
        report = sweep(home, source, **options)
        assert source.exhausted
        return report, [(trial.number, trial.state.name, trial.params, trial.values) for trial in study.trials()]


def test_a_search_makes_the_trials_that_it_makes_here(home, place, tmp_path):
    file = tmp_path / "toy.yaml"
    file.write_text(SEARCH)
    (search,) = read_searches(file)
    report, trials = searched(home, search, **place.options)
    assert report.exit_code == 0 and len(trials) == 4
    assert all(len(home.run(run_id).attempts()) == 1 for run_id in report.ends)
    again, trials_again = searched(home, search, **place.options)
    assert trials_again == trials and not any(end.fresh for end in again.ends.values())
    if place.name != "local":
        _, local = searched(Home(tmp_path / "here").create(), search, jobs=1)
        assert trials == local
