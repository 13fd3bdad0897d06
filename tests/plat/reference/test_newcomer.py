"""Reference results as a newcomer meets them: one seed beside earlier runs, and a reference that cannot be used."""

from __future__ import annotations

import shutil

import pytest

FILE = "experiments/small.yaml"


def test_one_seed_stands_beside_the_reference(plat, checkout):
    code, out, err = plat("sweep", FILE, "--home", "new")
    assert code == 0 and "warning" not in err
    assert "reference" in out and "range" in out and "No comparison" not in out
    assert "of 2 peaks (expected by chance: 0.1;" in out
    lines = (checkout / "new" / "reports" / "small" / "peak_success.csv").read_text().splitlines()
    column = lines[0].split(",").index("reference_runs")
    assert {line.split(",")[column] for line in lines[1:] if ",peak," in line} == {"5"}, "without the run itself"
    again = plat("sweep", FILE, "--home", "new")[1]
    assert again.startswith("nothing to do")


def test_another_bundle_makes_the_report_anew(plat, checkout):
    assert plat("sweep", FILE, "--home", "new")[0] == 0
    shutil.rmtree(checkout / "results")
    code, out, _ = plat("sweep", FILE, "--home", "new")
    assert code == 0 and "nothing to do: every run is done, and the report" not in out
    assert out.count("there is no ../results") == 1


def test_other_settings_are_said(plat, checkout):
    code, out, err = plat("sweep", FILE, "climb.games=5", "--home", "new")
    said = "o comparison with ../results: it has no run of these settings (the nearest has climb.games 20, not 5)"
    assert code == 0 and f"warning: n{said}" in err
    assert f"N{said}" in " ".join(out.split()), out


def test_a_damaged_reference_is_refused_before_training(plat, checkout):
    shard = checkout / "results" / "runs-0001.parquet"
    shard.write_bytes(shard.read_bytes()[:-1])
    code, _, err = plat("sweep", FILE, "--home", "new")
    assert code == 2 and "instead of" in err and "runs-0001.parquet" in err
    assert "or remove `reference:` from small.yaml" in err
    assert not list((checkout / "new").glob("runs/*"))


@pytest.mark.parametrize("value", ["[1]", "{a: b}"])
def test_a_reference_is_a_path(plat, checkout, value):
    (checkout / FILE).write_text((checkout / FILE).read_text().replace("../results", value))
    code, _, err = plat("plan", FILE, "--home", "new")
    assert code == 2 and "reference must be text" in err and "small.yaml:3" in err


def test_the_frames_of_a_bundle_give_the_report_of_the_store(plat, checkout):
    from plat.spec.expansion.experiment import load_experiment
    from plat.store.bundle.bundle_frames import read_results
    from plat.store.home import Home
    from plat.store.mlflow.frames import Store
    from plat_analysis.report.build import build_report
    from plat_analysis.report.report_files import report_files

    experiment = load_experiment(checkout / FILE, ["matrix.seed=range(6)"])
    home = Home.find(checkout / "earlier")
    results = read_results(checkout / "results")
    assert results.experiments == {"small": [run.id for run in experiment.runs]}
    assert results.overrides == ("matrix.seed=range(6)",)
    stored = build_report(Store(home.store_uri(), home).load(experiment), experiment)
    assert report_files(build_report(results.frames, experiment)) == report_files(stored)
