"""The axes, the seeds and the metrics that are chosen of foreign runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from plat.app.recorded.foreign_run import ForeignRun, flat_values, text_values
from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.selection import axes_of, select
from plat.errors import SpecError


def runs(*values: dict[str, Any], metrics: tuple[str, ...] = ("loss",)) -> list[ForeignRun]:
    history = {1: dict.fromkeys(metrics, 0.5)}
    return [ForeignRun(f"r{number}", row, history, f"place{number}") for number, row in enumerate(values)]


def grid(**more: Any) -> list[dict[str, Any]]:
    """Return four runs of two axes; `more`: a key and its four values."""
    cells = [{"lr": lr, "opt": opt} for lr in (0.1, 0.2) for opt in ("adam", "sgd")]
    return [cell | {key: values[number] for key, values in more.items()} for number, cell in enumerate(cells)]


@pytest.mark.parametrize(
    ("values", "axes", "left_out"),
    [
        (grid(), ("lr", "opt"), []),
        (grid(model=["m"] * 4), ("lr", "opt"), []),
        (grid(tag=["w", "x", "y", "z"]), ("lr", "opt"), ["tag"]),  # lr and opt tell the runs apart
        (grid(best=[0.1, 0.2, 0.3, 0.4]), ("lr", "opt"), ["best"]),
        ([{"lr": lr} for lr in (0.1, 0.2, 0.3)], ("lr",), []),
        (
            [{"lr": lr, "wd": lr / 2, "opt": "a" if lr < 0.3 else "b"} for lr in (0.1, 0.2, 0.3)],
            ("lr", "wd", "opt"),
            [],
        ),
        ([{"opt": name, "out": f"/data/{name}"} for name in ("adam", "sgd")], ("opt",), ["out"]),
        ([{"opt": name, "at": f"2024-01-0{day}"} for day, name in enumerate("ab", 1)], ("opt",), ["at"]),
        ([{"opt": name, "started": 1.7e9 + ord(name)} for name in "ab"], ("opt",), ["started"]),
        ([{"opt": "a", "run_name": name} for name in "xyz"], (), ["run_name"]),
        ([{"flag": True}, {"flag": 1}], ("flag",), []),
        ([{"lr": 1}, {"lr": 1.0}], (), []),
        ([{"beta": 0.9}, {}], ("beta",), []),
    ],
)
def test_values_that_vary_become_axes_unless_they_only_name_the_runs(values, axes, left_out):
    found, _, others = axes_of(values, (), "")
    assert (found, others) == (axes, left_out)


def test_a_random_seed_does_not_hide_the_values_of_a_random_search():
    values = [{"lr": lr, "opt": "a" if lr < 0.25 else "b", "seed": int(lr * 1e4)} for lr in (0.1, 0.2, 0.3)]
    assert axes_of(values, (), "seed")[0] == ("lr", "opt")


def test_seeds_come_from_a_key_or_are_counted():
    def seeds(values: list[dict[str, Any]], seed: str = "") -> list[int]:
        return [each.seed for each in select(runs(*values), Choice(seed=seed)).runs]

    assert seeds([{"lr": lr, "seed": seed} for lr in (1, 2) for seed in (3, 4)]) == [3, 4, 3, 4]
    assert seeds([{"lr": lr, "train_seed": 5} for lr in (1, 2)]) == [5, 5]
    assert seeds([{"lr": lr, "a.seed": 5, "b.seed": 6} for lr in (1, 2)]) == [0, 0]
    assert seeds([{"lr": lr, "a.seed": 5, "b.seed": 6} for lr in (1, 2)], "b.seed") == [6, 6]
    assert seeds([{"lr": lr, "seed": 7 * lr} for lr in (1, 1.0, 2)], "none") == [0, 1, 0]


def test_the_notes_say_what_to_do_about_unlike_seeds():
    def notes(*pairs: tuple[int, int]) -> list[str]:
        return select(runs(*({"lr": lr, "seed": seed} for lr, seed in pairs)), Choice()).notes

    assert notes((1, 0), (1, 1), (2, 0), (2, 1)) == []
    assert "'matrix.seed=[0,1]' leaves the runs" in notes((1, 0), (1, 1), (1, 2), (2, 0), (2, 1))[0]
    assert "--seed none numbers the runs" in notes((1, 0), (2, 1))[0]


def test_a_note_asks_whether_runs_that_nothing_tells_apart_are_replicates():
    def notes(names: list[str], *values: dict[str, Any], seed: str = "") -> str:
        given = [replace(run, name=name) for run, name in zip(runs(*values), names, strict=True)]
        return " ".join(select(given, Choice(seed=seed)).notes)

    cleanrl = [f"runs/CartPole-v1__ppo_lr{lr}__0__17{at}" for at, lr in enumerate((0.1, 0.2, 0.2), 11)]
    said = notes(cleanrl, {}, {}, {})
    assert "nothing tells 3 runs apart, which count as seeds: are they replicates?" in said
    assert "Their names differ in lr0.1 and lr0.2." in said
    assert "lr0.1 and lr0.2" in notes(["lr0.1.csv", "lr0.2.csv"], {}, {})
    assert "nothing tells 2 runs apart, which count as seeds: are they replicates? If" in notes(["a", "b"], {}, {})
    assert "nothing but the seed tells 2 runs apart" in notes(["seed0", "seed1"], {"seed": 0}, {"seed": 1})
    assert "nothing tells 2 runs" in notes(["a", "b", "c"], {"opt": "x"}, {"opt": "x"}, {"opt": "y"})
    assert notes(["a", "b"], {"lr": 1}, {"lr": 2}) == notes(["a", "b"], {}, {}, seed="none") == ""


def test_metrics_are_chosen_and_runs_without_them_left_out():
    given = runs({"lr": 1}, {"lr": 2}, metrics=("loss", "acc", "_runtime", "system/cpu"))
    given += runs({"lr": 3}, metrics=("_runtime",))
    found = select(given, Choice())
    assert [set(each.run.history[1]) for each in found.runs] == [{"loss", "acc"}] * 2
    assert found.notes == ["left out, because they have no metric: r0"]
    assert [set(each.run.history[1]) for each in select(given, Choice(metrics=("acc",))).runs] == [{"acc"}] * 2


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (Choice(axes=("rate",)), "no run has the value 'rate'"),
        (Choice(seed="rate"), "no run has the value 'rate'"),
        (Choice(metrics=("acc",)), "no run has the metric 'acc'"),
        (Choice(step="acc"), "no run has the metric 'acc'"),
        (Choice(step="loss"), "the step loss of the run r0 is 0.5"),
        (Choice(axes=("lr",)), r"two runs have the same values and seed \(lr=1, seed=0\): r0 and r1"),
        (Choice(seed="opt"), "the seed opt of the run r0 is 'a', which is no whole number"),
    ],
)
def test_wrong_choices_are_refused(choice, message):
    given = runs({"lr": 1, "opt": "a", "seed": 0}, {"lr": 1, "opt": "b", "seed": 0})
    with pytest.raises(SpecError, match=message) as error:
        select(given, choice)
    assert error.value.fix and error.value.where


def test_values_are_those_that_an_experiment_file_can_hold():
    config = {"a": {"b": 1, "c": [1, "x"]}, "d": None, "e": float("nan"), "f": 2**70, "g": True}
    assert flat_values(config) == {"a.b": 1, "a.c": '[1, "x"]', "d": None, "e": "nan", "f": str(2**70), "g": True}
    texts = {"a": "1e-3", "b": "true", "c": "adam", "d": "", "e": "7", "f": "9" * 5000}
    assert text_values(texts) == {"a": 1e-3, "b": True, "c": "adam", "d": "", "e": 7, "f": "9" * 5000}
