"""What is said of a run's scores, wherever they are shown."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plat_analysis.artifact import Table
from plat_analysis.data.results import Results
from plat_analysis.figures import learning_curves
from plat_analysis.report.report import runs_table
from plat_analysis.tables import peak_success
from plat_ragen2.regimes import collapse


def quickstart(make_experiment, **fields):
    return make_experiment(rows=["GRPO"], tasks=["frozenlake"], **fields)


def test_a_run_that_fell_after_its_peak_is_said_to_have(make_experiment, make_frames):
    experiment = quickstart(make_experiment)
    frames = make_frames(experiment)
    fallen = experiment.runs[0]
    mine = (frames.metrics.run_id == fallen.id) & frames.metrics.key.str.startswith("heldout/")
    frames.metrics = frames.metrics[~mine]
    frames.tables = frames.tables[frames.tables.run_id != fallen.id]
    rows = (frames.metrics.run_id == fallen.id) & (frames.metrics.key == "val/success")
    frames.metrics.loc[rows, "value"] = [0.2, 0.3, 0.4, 0.5, 0.3, 0.1, 0.05]
    figure = learning_curves.build(frames, experiment)[0]
    assert "▼" in figure.caption and any("fell after its peak, 50.0 → 5.0 %" in t for t in figure.titles.values())
    assert "v" in {line.get_marker() for axis in figure.draw().axes for line in axis.lines}
    table = peak_success.build(frames, experiment)[0]
    final = next(row for row in table.rows if row.cells[1].text == "final")
    assert final.cells[2].text == "↓5.0" and any("fell after the peak, 1 of 2" in note.text for note in table.notes)
    line = runs_table(Results(frames, experiment)).records[0]
    assert line["peak"] == 0.5 and line["last"] == 0.05 and line["fell_after_peak"].startswith("fell after its peak")
    regimes = collapse.build(frames, experiment)[1]
    assert regimes.records[0]["fell_after_peak"] and "↓0.05" in [cell.text for cell in regimes.rows[0].cells]
    assert any("no filter seed 0 50.0 → 5.0 % (validation)" in note.text for note in regimes.notes)
    assert any("50.0 → 5.0, validation" in note.text for note in table.notes)


def of_another_trainer(experiment, frames):
    """The same results from a trainer whose headline is not val/success."""
    runs = [replace(run, headline="val/games_won") for run in experiment.runs]
    frames.metrics = frames.metrics.replace({"key": {"val/success": "val/games_won"}})
    return replace(experiment, runs=runs), frames


@pytest.mark.parametrize("builder", [peak_success, collapse, learning_curves])
def test_success_is_what_the_trainer_names_as_its_headline(make_experiment, make_frames, builder):
    experiment = quickstart(make_experiment, seeds=range(3))
    wanted = builder.build(make_frames(experiment), experiment)
    renamed, frames = of_another_trainer(experiment, make_frames(experiment))
    made = builder.build(frames, renamed)
    assert (
        runs_table(Results(frames, renamed)).records == runs_table(Results(make_frames(experiment), experiment)).records
    )
    for artifact, expected in zip(made, wanted, strict=True):
        assert artifact.name == expected.name
        if isinstance(artifact, Table):
            assert repr(artifact.records) == repr(expected.records)
        else:
            assert len(artifact.points) == len(expected.points) > 0 and artifact.draw()
            assert not any(point.get("metric") == "val/success" for point in artifact.points)
