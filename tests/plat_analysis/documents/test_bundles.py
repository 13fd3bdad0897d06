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
    with pytest.raises(SpecError, match="28 of 168 runs of 'heatmap' are in no bundle"):
        bundles.report("heatmap", ["matrix.seed=[0, 1, 2, 3, 4, 99]"])
    assert not bundles.report("heatmap", ["matrix.algorithm=[ppo]"]).failures
    with pytest.raises(SpecError, match=r"no experiment file nonsense\.yaml"):
        bundles.report("nonsense")
