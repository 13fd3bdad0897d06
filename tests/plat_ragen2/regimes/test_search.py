"""A search is told point by point: the seeds of a point together, each regime counted, nothing left out."""

from __future__ import annotations

import numpy as np
import pytest

from plat.errors import SpecError
from plat_analysis.artifact import Figure
from plat_analysis.data.results import Results
from plat_ragen2.regimes import search
from plat_ragen2.regimes.regime import Thresholds
from plat_ragen2.regimes.search import points, varied_axes

ROWS, TASKS = ["GRPO", "DAPO"], ["frozenlake", "sokoban"]


@pytest.fixture
def searched(make_experiment, make_frames):
    """Two algorithms x two tasks x filter x three seeds; unfiltered runs lose their input dependence."""
    experiment = make_experiment(rows=ROWS, tasks=TASKS, seeds=range(3))
    lost = {experiment.runs[0].id: "failed:oom"}
    return experiment, make_frames(experiment, holes=lost, steps=120)


def test_every_point_is_listed_with_its_regimes(searched):
    experiment, frames = searched
    (table,) = search.build_table(frames, experiment)
    assert len(table.rows) == 8 and [column.title for column in table.columns[:3]] == ["variant", "task", "filter"]
    regimes = {tuple(record[axis] for axis in ("variant", "task", "filter")): record for record in table.records}
    assert regimes["GRPO", "frozenlake", "none"]["regimes"] == "template collapse 2"
    assert regimes["GRPO", "frozenlake", "none"]["runs"] == 2 and table.rows[0].cells[3].text == "2/3"
    assert regimes["DAPO", "sokoban", "top_p"]["regimes"] == "diverse 3"
    assert sum(table.values.values()) == 23, "the run without a result is in no count"


def test_the_means_of_a_point_the_slow_way(searched):
    experiment, frames = searched
    results = Results(frames, experiment)
    point = points(results, varied_axes(results), Thresholds())[-1]
    ends = []
    for run in experiment.runs[-3:]:
        data = results.table(run.id, "probe")[-1][1]
        ends.append(np.sum(data["hits"]) / (8 * len(data["hits"])))
    assert point.mean("retrieval_end") == pytest.approx(np.mean(ends))
    assert point.mean("templates_end") is None, "these runs did not measure levels"


def test_the_phase_diagram_has_a_panel_for_each_condition(searched):
    experiment, frames = searched
    (figure,) = search.build_diagram(frames, experiment, rows="variant", columns="task")
    assert isinstance(figure, Figure) and len(figure.points) == 8
    drawn = figure.draw()
    assert [axes.get_title() for axes in drawn.axes] == ["no filter", "Top-p"]
    words = [text.get_text() for axes in drawn.axes for text in axes.texts]
    assert any(word.endswith("2/2") for word in words) and sum(word.endswith("0/3") for word in words) == 4


def test_a_point_without_results_is_drawn_empty(make_experiment):
    experiment = make_experiment(rows=ROWS, tasks=TASKS)
    (figure,) = search.build_diagram(None, experiment, rows=["variant"], columns="task")
    assert all(text.get_text() == "—" for axes in figure.draw().axes for text in axes.texts)
    (table,) = search.build_table(None, experiment)
    assert {row.cells[-1].text for row in table.rows} == {"not run"}


def test_what_cannot_be_drawn_is_refused(make_experiment):
    experiment = make_experiment(rows=ROWS, tasks=TASKS)
    with pytest.raises(SpecError, match="more than one run"):
        search.build_diagram(None, experiment, rows="variant", columns="filter")
    with pytest.raises(SpecError, match="several values"):
        search.build_table(None, make_experiment(rows=["GRPO"], tasks=["sokoban"], filters=("none",), seeds=range(3)))
