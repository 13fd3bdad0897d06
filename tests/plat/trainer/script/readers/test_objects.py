"""Objects become metrics: their step, nested names, objects without a step, texts in place of a step."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest

from plat.errors import RunError
from plat.trainer.script.readers.objects import Logged, Objects


def read(*lines: object, step: str = "", **options: object) -> tuple[list[Logged], list[str]]:
    """Return what objects give, and what was refused."""
    refused: list[str] = []
    reader = Objects(step, lambda what, where, fix: refused.append(what), **options)  # type: ignore[arg-type]

    def all_of() -> Iterator[Logged]:
        for line in lines:
            yield from reader.of_line(line if isinstance(line, str | bytes) else json.dumps(line), 9.0)
        yield from reader.end()

    return list(all_of()), refused


def test_an_object_with_numbers_is_metrics_and_no_other_line_is() -> None:
    found, _ = read({"step": 4, "loss": 0.5, "note": "x", "ok": True}, {"epoch": 6, "loss": math.nan})
    assert found[0] == Logged(4, {"loss": 0.5}, 9.0, "step")
    assert (found[1].step, found[1].counter) == (6, "epoch") and math.isnan(found[1].metrics["loss"])
    for other in ("epoch 3", "{not json", "[1]", '{"step": 1}', '{"note": "x"}', "", "{" * 5000):
        assert read(other) == ([], [])


def test_no_name_of_a_metric_is_reserved() -> None:
    found, _ = read({"step": 1, "loss": 1, "time": 7e12}, {"step": 2, "loss": 1, "time": 3})
    assert [(each.metrics["time"], each.time) for each in found] == [(7e12, 9.0), (3.0, 9.0)]


def test_nested_objects_have_dotted_names() -> None:
    found, _ = read({"step": 5, "train": {"loss": 0.2, "by": {"head": 1}}, "d": {"e": [{}]}})
    assert found == [Logged(5, {"train.loss": 0.2, "train.by.head": 1.0}, 9.0)]


def test_the_step_may_have_any_name_in_any_case() -> None:
    assert read({"step": 1.5, "updates": 3}, step="updates")[0] == [Logged(3, {"step": 1.5}, 9.0, "updates")]
    assert read({"Step": 2, "a": 1})[0] == [Logged(2, {"a": 1.0}, 9.0, "Step")]
    for wrong in ("-1", "1e300", "NaN", "0.5", "12345678901234567890", "9" * 400):
        with pytest.raises(RunError, match="no whole number from 0 to") as error:
            read(f'{{"epoch": {wrong}, "loss": 1}}')
        assert "epoch is " in error.value.what and "script.step" in str(error.value.fix)


def test_a_step_that_is_a_text_is_no_step() -> None:
    found, refused = read({"step": "init", "params": 3}, {"step": 1, "loss": 2})
    assert found == [Logged(1, {"loss": 2.0}, 9.0)] and "step is 'init'" in refused[0]


def test_arguments_and_summaries_are_no_metrics_if_other_lines_have_a_step() -> None:
    steps = [{"step": step, "loss": 0.1} for step in range(3)]
    found, refused = read({"lr": 0.1, "seed": 3}, *steps, {"best": 5})
    assert [each.step for each in found] == [0, 1, 2] and {name for each in found for name in each.metrics} == {"loss"}
    assert "(lr, seed)" in refused[0] and "(best)" in refused[1]


def test_lines_are_counted_if_none_has_a_step() -> None:
    assert [each.step for each in read(*[{"loss": 1}] * 3)[0]] == [1, 2, 3]
    assert read({"loss": 1})[0] == [Logged(1, {"loss": 1.0}, 9.0)]
    assert [each.step for each in read(*[{"loss": 1}] * 3, first=8)[0]] == [8, 9, 10]


def test_a_fraction_of_an_epoch_is_a_metric_where_that_is_usual() -> None:
    found, _ = read({"loss": "6.5", "epoch": 0.1}, {"loss": 6, "epoch": 0.2}, {"eval": 5, "epoch": 1.0}, fraction=True)
    assert [(each.step, each.metrics["epoch"]) for each in found] == [(1, 0.1), (2, 0.2), (3, 1.0)]
    assert found[0].metrics["loss"] == 6.5


def test_an_integer_of_thousands_of_digits_does_not_hide_the_other_metrics() -> None:
    found, _ = read({"step": 1, "loss": 1}, '{"step": 2, "loss": 0.5, "n": -' + "9" * 5000 + "}")
    assert [logged.metrics for logged in found] == [{"loss": 1.0}, {"loss": 0.5}]
