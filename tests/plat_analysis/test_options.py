"""Options that builders and checks share are given, seen and explained like those that each declares itself."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from plat.errors import SpecError
from plat_analysis import builder_options
from plat_analysis.builder_options import takes
from plat_analysis.data.results import Results
from plat_analysis.plugins import builders


@dataclass(frozen=True)
class Axes:
    """Axes of a table.

    rows     the axes of the rows
    columns  the axis of the columns
    """

    rows: str | Sequence[str] = "variant"
    columns: str = "task"


@dataclass(frozen=True)
class Sized(Axes):
    """A table with a size.

    size     in points
    """

    size: float = 5.0


@takes(Sized)
def build(results, options: Sized, *, metric: str, name: str = "table"):
    """A table.

    metric   what is shown
    """
    return results, options, metric, name


def test_options_are_given_one_by_one(monkeypatch):
    monkeypatch.setattr(Results, "of", lambda frames, experiment: (frames, experiment))
    monkeypatch.setattr(builder_options, "own_axes", lambda *_: {})
    assert build(1, 2, rows=["a", "b"], metric="m") == ((1, 2), Sized(rows=["a", "b"]), "m", "table")
    assert build(1, 2, metric="m", size=3.0, name="n") == ((1, 2), Sized(size=3.0), "m", "n")


def test_the_signature_has_the_required_arguments_first_and_types_that_are_evaluated():
    parameters = inspect.signature(build).parameters
    assert list(parameters) == ["frames", "experiment", "metric", "rows", "columns", "size", "name"]
    assert parameters["rows"].annotation == str | Sequence[str] and parameters["rows"].default == "variant"
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in list(parameters.values())[2:])


def test_every_option_is_explained_once():
    assert (inspect.getdoc(build) or "").splitlines() == [
        "A table.",
        "",
        "metric   what is shown",
        "rows     the axes of the rows",
        "columns  the axis of the columns",
        "size     in points",
    ]


def test_an_argument_that_nobody_declares_is_refused_with_the_nearest():
    with pytest.raises(SpecError, match="unknown argument 'colums'") as caught:
        builders.check_arguments(build, {"metric": "m", "colums": "task"}, "x.yaml:1:1")
    assert "'columns'" in (caught.value.fix or "")
