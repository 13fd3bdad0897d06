"""Reports and claims that cannot be made are refused before anything is trained, where they were written."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment
from plat_analysis.plugins.axis_checking import check_axes
from plat_analysis.plugins.entry_checking import check_entries, described, fits

FILE = """
title: t
base: {task: frozenlake}
matrix: {filter: [none, top_p], algorithm: [ppo, grpo], seed: [0]}
"""
EXPERIMENTS = Path(__file__).parents[3] / "experiments"
IMPORTED = {EXPERIMENTS / "published" / f"{name}.yaml" for name in ("ragen2_fig7", "ragen2_runs", "tdmpc2")}  # not here
IMPORTED |= {*EXPERIMENTS.glob("published/data/*.yaml")}
SHIPPED = sorted({*EXPERIMENTS.rglob("*.yaml")} - {*EXPERIMENTS.glob("papers/*.yaml")} - IMPORTED)


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_what_is_shipped_can_be_made(path):
    check_entries(load_experiment(path))


@pytest.mark.parametrize(
    "entry, what, fix",
    [
        ("{builder: collapse, pair: filtre}", "'filtre' is not an axis", "'filter'"),
        ("{builder: paired_deltas, rows: [algorithm, modle]}", "'modle' is not an axis", "axes: filter"),
        ("{builder: paired_deltas, rows: 3}", "rows: 3 is not text or a list of text", "list of text"),
        ("{builder: paired_deltas, columns: 3}", "columns: 3 is not text or a list of text", "list of text"),
        ("{builder: collapse, treatment: top_q}", "no value 'top_q'", "'top_p'"),
        ("{builder: collapse, last: three}", "'three' is not a whole number", "whole number"),
        ("{builder: collapse, scope: turn}", "'turn' is not one of", "trajectory"),
        ("{builder: collapse, thresholds: {low: much}}", "a mapping to a number", "number"),
        ("{builder: collapse, treatmnt: top_p}", "unknown argument 'treatmnt'", "'treatment'"),
        ("{builder: paired_deltas, paper: table4}", "no table 'table4'", "tables"),
        (
            "{builder: learning_curves, metrics: [val/sucess], rows: algorithm}",
            "no run logs the metric 'val/sucess'",
            "'val/success'",
        ),
        (
            "{builder: metric_table, metrics: [success, nosuch/x], rows: [algorithm, filter]}",
            "the metric 'nosuch/x'",
            "metrics: success",
        ),
        ("{check: increasing, metric: probe/retrieval, rows: [algorithm, filter], id: a}", "probe/retrieval'", "_acc'"),
        ("{builder: paired_deltas, heldout: 1}", "1 is not true or false", "true or false"),
        ("{builder: phase_diagram, quantity: retrieval}", "'retrieval' is not one of", "retrieval_end"),
        ("{check: mean_delta_small, smallest: .inf, id: a}", "smallest: inf is not a number", "a number"),
        ("{check: mean_delta_small, smallest: -3, id: a}", "smallest: -3 is not above 0", "above 0"),
        ("{check: mean_delta_positive, looks: 0, id: a}", "looks: 0 is not above 0", "above 0"),
        ("{check: falls_before, least: 7, id: a}", "least: 7 is not above 0 and at most 1", "at most 1"),
        ("{check: level, bound: .nan, id: a}", "bound: nan is not a number", "a number"),
        ("{check: level, measure: null, id: a}", "None is not a measure", "metric: NAME"),
        ("{builder: measures_table, measures: {a: }, conditions: filter}", "None is not a measure", "metric: NAME"),
        ("{builder: measures_table, measures: {a: [1]}, conditions: filter}", "[1] is not a measure", "metric: NAME"),
        (
            "{builder: measures_table, measures: {a: {metric: success, digits: many}}, conditions: filter}",
            "'many' is not a whole",
            "digits: 2",
        ),
        (
            "{builder: measures_table, measures: {a: {metric: success, digits: -3}}, conditions: filter}",
            "-3 is not a whole number",
            "digits: 2",
        ),
        (
            "{builder: measures_table, measures: {a: {metric: success, percent: 1}}, conditions: filter}",
            "1 is not true",
            "percent: true",
        ),
        ("{builder: precheck, signal: 3, settings: algorithm}", "3 is not a measure", "metric: NAME"),
        ("{check: trend_over_measures, only: true, id: a}", "only: True is not a list", "a list of text"),
    ],
)
def test_wrong_arguments(tmp_path, entry, what, fix):
    path = tmp_path / "x.yaml"
    texts = {"claims" if "check:" in entry else "report": entry}
    if "paired_deltas" in entry and "paper" not in entry and "heldout" not in entry:  # the claim has the same arguments
        texts["claims"] = entry.replace("builder: paired_deltas", "id: a, check: mean_delta_positive")
    for key, text in texts.items():
        line = f"{key}: [{text}]"
        path.write_text(line + FILE)
        with pytest.raises(SpecError, match=re.escape(what)) as caught:
            check_entries(load_experiment(path))
        assert fix in (caught.value.fix or "")
        argument = re.findall(r"(?<=, )\w+: ", entry)[0]
        assert caught.value.where == f"{path}:1:{line.index(argument) + len(argument) + 1}"


def test_an_entry_of_which_the_command_line_left_one_side_is_left_out_with_the_override(tmp_path):
    path = tmp_path / "x.yaml"
    one_row = FILE.replace("[ppo, grpo]", "[ppo]")
    for entry in ("{builder: paired_deltas, baseline: none, treatment: top_p}", "{builder: collapse}"):
        path.write_text(f"report: [{entry}]{one_row}")
        assert check_entries(load_experiment(path)) == []
        for override in ("filter=none", "matrix.filter=[none]"):
            (note,) = check_entries(load_experiment(path, [override, "scale=smoke"]))
            assert note.startswith(f"{path}:1:10 is left out because of {override}: there are no two sides to compare")


def test_a_mistake_of_the_file_is_refused_whatever_the_command_line_chose(tmp_path):
    path = tmp_path / "x.yaml"
    for entry, what in (("treatment: topp", "has no value 'topp'"), ("baseline: top_p", "every run has filter=top_p")):
        path.write_text(f"claims: [{{id: a, says: s, check: mean_delta_positive, {entry}}}]{FILE}")
        with pytest.raises(SpecError, match=what):
            check_entries(load_experiment(path, ["matrix.filter=[top_p]"]))


def test_an_override_does_not_change_which_axis_a_claim_compares(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        "title: t\nbase: {trainer: script, script.command: 'sh x.sh {lr} {width}'}\n"
        "matrix: {lr: [0.1, 0.01], width: [16, 64]}\n"
        "claims: [{id: slow, says: s, check: mean_delta_positive, measure: {metric: loss}, smallest: 1}]\n"
    )
    (tmp_path / "x.sh").write_text("")
    assert check_entries(load_experiment(path, ["width=16"])) == []
    (note,) = check_entries(load_experiment(path, ["lr=0.01"]))
    assert note.endswith("because of lr=0.01: there are no two sides to compare: every run has lr=0.01")


def test_an_axis_that_is_a_default_is_said_to_be_one(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(FILE.lstrip())
    experiment = load_experiment(path)
    with pytest.raises(SpecError, match=r"columns: 'size' is not an axis.*it is the default") as caught:
        check_axes(experiment, "columns", "size", default=True)
    assert caught.value.fix == "add `columns: AXIS` to the entry; axes: filter, algorithm, seed"


KEEP_RATES = """
title: t
base: {task: frozenlake, filter: top_p}
matrix: {filter.value: [1.0, 0.9], seed: [0, 1]}
"""
INCLUDED = FILE + "include: [{filter: none, algorithm: ppo, seed: 0, train.iterations: 3}]\n"
UNEVEN = FILE.replace("seed: [0]", "seed: [0, 1, 2]") + "exclude: [{filter: none, seed: 2}]\n"


@pytest.mark.parametrize(
    "file, entry, what",
    [
        (KEEP_RATES, "{builder: peak_success_table}", "more than one run for"),  # `pair` is missing
        (KEEP_RATES, "{builder: peak_success_table, pair: seed}", "no run has seed = none or top_p"),
        (INCLUDED, "{builder: peak_success_table}", "more than one run for ppo × frozenlake, filter=none, seed 0"),
        (
            INCLUDED,
            "{builder: learning_curves, rows: algorithm}",
            "more than one run for ppo × frozenlake, filter=none",
        ),
        (FILE, "{builder: collapse}", "more than one run for filter=none, seed 0"),
        (UNEVEN, "{builder: paired_deltas}", "different runs, ppo × frozenlake: only top_p has seed 2"),
        (UNEVEN.replace("[ppo, grpo]", "[ppo]"), "{builder: collapse}", "only top_p has seed 2"),
    ],
)
def test_what_cannot_work_for_the_matrix_is_refused_before_anything_runs(tmp_path, file, entry, what):
    path = tmp_path / "x.yaml"
    claim = entry.replace("builder: paired_deltas", "id: a, check: mean_delta_positive")
    for key, text in {"report": entry, "claims": claim if claim != entry else ""}.items():
        if text:
            path.write_text(f"{key}: [{text}]{file}")
            with pytest.raises(SpecError, match=re.escape(what)) as caught:
                check_entries(load_experiment(path))
            assert caught.value.where == f"{path}:1:{len(key) + 4}" and caught.value.fix


@pytest.mark.parametrize(
    "entry, what",
    [
        ("claims: [{id: a, check: mean_delta_positive, only: [ppo, gppo]}]", "no row 'gppo'"),
        ("claims: [{id: a, check: mean_delta_positive, measure: peek}]", "no run logs the metric 'peek'"),
        ("claims: [{id: a, check: mean_delta_small, only: [gppo]}]", "no row 'gppo'"),
        ("claims: [{id: a, check: delta_larger, row: ppo, than: gppo}]", "no row 'gppo'"),
        ("claims: [{id: a, check: delta_larger, row: ppo}]", "missing a required argument: 'than'"),
        ("claims: [{id: a, check: increasing, metric: m}]", "missing a required argument: 'rows'"),
        ("report: [{builder: phase_diagram, rows: filter}]", "missing a required argument: 'columns'"),
        (
            "claims: [{id: a, check: delta_larger, row: ppo, than: grpo, differ_in: [filtre]}]",
            "no run has an option 'filtre'",
        ),
        ("report: [{builder: collapse, thresholds: {fal: 0.2}}]", "there is no 'fal'"),
    ],
)
def test_names_inside_an_argument_are_checked_too(tmp_path, entry, what):
    path = tmp_path / "x.yaml"
    path.write_text(entry + FILE.replace("[ppo, grpo]", "[ppo]" if "collapse" in entry else "[ppo, grpo]"))
    with pytest.raises(SpecError, match=re.escape(what)) as caught:
        check_entries(load_experiment(path))
    assert caught.value.where.startswith(f"{path}:1:") and caught.value.fix


@pytest.mark.parametrize(
    "value, hint, expected",
    [
        ("a", str | Sequence[str] | None, True),
        (["a"], str | Sequence[str] | None, True),
        (["a", 1], str | Sequence[str] | None, False),
        (None, str | None, True),
        ("abc", Sequence[str], False),
        (1, float, True),
        (True, float, False),
        (1.5, int, False),
        (10**400, float, False),  # larger than any float
        ({"a": 1}, Mapping[str, float] | None, True),
        ({"a": "b"}, Mapping[str, float], False),
        ("x", Literal["x", "y"], True),
        (object(), Any, True),
        ([1], Any, True),
        (3, complex, True),  # unknown kinds are not judged
    ],
)
def test_types(value, hint, expected):
    assert fits(value, hint) is expected and isinstance(described(hint), str)


MEASURES = "{builder: measures_table, rows: algorithm, conditions: filter, measures: {a: peak}}"
TREND = "{id: a, check: trend, rows: algorithm, conditions: filter, order: [none, top_p, top_k]}"


@pytest.mark.parametrize(
    "kind, entry, what",
    [
        ("report", MEASURES.replace("conditions: filter", "conditions: fliter"), "'fliter' is not an axis"),
        ("report", MEASURES.replace("}}", "}, baseline: nnone}"), "has no value 'nnone'"),
        ("report", MEASURES.replace("}}", "}, against: {top_p: nobody}}"), "has no value 'nobody'"),
        ("report", MEASURES.replace("a: peak", "a: val/sucess"), "no run logs the metric 'val/sucess'"),
        ("report", MEASURES.replace("a: peak", "a: {metric: val/success, att: 3}"), "a measure has no key 'att'"),
        ("claims", TREND.replace("top_k", "top_q"), "no value 'top_q'"),
        ("claims", TREND.replace(", top_k", ""), "a trend needs 3 different conditions"),
        ("claims", TREND.replace("]", "], measure: val/sucess"), "no run logs the metric 'val/sucess'"),
    ],
)
def test_measures_and_trends_are_checked_before_anything_runs(tmp_path, kind, entry, what):
    path = tmp_path / "x.yaml"
    path.write_text(
        f"title: t\n{kind}: [{entry}]\nbase: {{task: frozenlake}}\n"
        "matrix: {algorithm: [ppo, grpo], filter: [none, top_p, top_k], seed: [0, 1]}\n"
    )
    with pytest.raises(SpecError, match=re.escape(what)) as caught:
        check_entries(load_experiment(path))
    assert str(path) in caught.value.where
