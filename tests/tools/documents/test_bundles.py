"""A file whose runs were done for others is reported from whatever bundles hold them."""

from __future__ import annotations

import pytest

from plat.errors import SpecError


def test_runs_of_other_files_are_found_and_complete(bundles):
    report = bundles.report("fig7")
    assert len(report.results.runs) == 80 and not any(run.missing for run in report.results.runs)
    table4 = bundles.report("table4").results
    (run,) = [run for run in report.results.runs if run.axes == {**run.axes, "algorithm": "ppo", "task": "sokoban"}][:1]
    ours, theirs = (results.curve(run.id, "rollout/response_tokens") for results in (report.results, table4))
    assert ours[0].tolist() == theirs[0].tolist() and ours[1].tolist() == theirs[1].tolist()


def test_runs_in_no_bundle_are_counted(bundles):
    with pytest.raises(SpecError, match="runs of 'keep_rates' are in no bundle"):
        bundles.report("keep_rates")
    with pytest.raises(SpecError, match=r"no experiment file nonsense\.yaml"):
        bundles.report("nonsense")


@pytest.mark.long
def test_a_run_that_two_makes_of_cpu_have_is_that_of_the_reference(bundles):
    reference, other = (bundles.report(name).results for name in ("table4", "table4_other_cpu"))
    found = bundles.report("precheck").results
    shared = {run.id for run in other.runs} & {run.id for run in found.runs}
    curves = [
        [results.curve(run, "val/success")[1].tolist() for run in shared] for results in (found, reference, other)
    ]
    assert curves[0] == curves[1] != curves[2]
