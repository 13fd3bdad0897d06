"""Families of settings: by changed option, by axis, by name; and claims that no runs can decide."""

from __future__ import annotations

import json

import pytest

from plat import cli
from plat.errors import SpecError
from plat.spec.expansion.experiment import load_experiment
from plat_analysis.contrasts.families import sizes
from plat_analysis.contrasts.setting_correlations import OverSettings
from plat_analysis.data.results import Results
from plat_analysis.plugins.entry_checking import check_entries, foreseen

FILE = """
title: t
base: {task: frozenlake, algorithm: ppo, algorithm.entropy_coef: 0.001}
matrix:
  setting:
    base: {algorithm.entropy_coef: 0.001}
    keep .5: {filter: top_p, filter.value: 0.5}
    keep .7: {filter: top_p, filter.value: 0.7}
    keep .9: {filter: top_p, filter.value: 0.9}
    entropy 0: {algorithm.entropy_coef: 0.0}
    entropy .01: {algorithm.entropy_coef: 0.01}
    entropy .1: {algorithm.entropy_coef: 0.1}
    both: {algorithm.entropy_coef: 0.0, algorithm.kl_coef: 0.1}
  seed: range(5)
"""
PLAIN = """
title: t
base: {task: frozenlake, filter: top_p}
matrix: {filter.value: [0.4, 0.5, 0.6, 0.7, 0.8, 0.9], seed: range(5)}
"""
CLAIM = "{id: it, check: correlated, conditions: setting, proxies: {r: probe/retrieval_acc}%s}"


def main(arguments):
    """The exit code of a command."""
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    return ended.value.code


@pytest.fixture
def file(tmp_path):
    def make(text=FILE, claim=None, name="x"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(text + (f"claims: [{claim}]\n" if claim else ""))
        return path

    return make


def families(path, **options):
    """Name of a setting -> its family; the only row."""
    given = {"conditions": "setting", **options}
    settings = OverSettings(**given).settings(Results.planned(load_experiment(path)))[""]
    return {names[0]: set(family) for names, family in zip(settings.names, settings.families, strict=True)}


def test_settings_that_change_the_same_option_are_a_family(file):
    found = families(file())
    assert found["keep .5"] == found["keep .7"] == found["keep .9"] == {"filter"}
    assert found["entropy 0"] == found["entropy .1"] == {"algorithm.entropy_coef"}
    assert found["both"] == {"algorithm.entropy_coef + algorithm.kl_coef"}
    assert found["base"] == {""}  # it changes nothing, and is no more like one family than like the other


def test_values_of_one_option_are_one_family(file):
    settings = OverSettings(conditions="filter.value").settings(Results.planned(load_experiment(file(PLAIN))))[""]
    assert len(settings.families) == 6 and len(set(settings.families)) == 1


def test_families_by_an_axis_or_by_name(file):
    found = families(file(), within="algorithm.entropy_coef")
    assert found["base"] == found["keep .5"] == {"0.001"} and found["both"] == found["entropy 0"] == {"0"}
    assert set(map(frozenset, families(file(), within=[]).values())) == {frozenset({""})}
    named = {"filter": ["base", "keep .5", "keep .7", "keep .9"], "other": ["base", *list(found)[4:]]}
    by_name = families(file(), within=named)
    assert by_name["keep .5"] == {"filter"} and by_name["both"] == {"other"} and by_name["base"] == {"filter", "other"}
    assert sizes([frozenset(one) for one in by_name.values()]) == "8 settings in 3 families (4, 3, 1)"


@pytest.mark.parametrize(
    "within, what",
    [
        ("seed", "within: 'seed' differs between the runs of one setting: 0 and 1"),
        ("nothing", "axis 'nothing'"),
        ({"a": ["keep .4"]}, "within: 'a' names 'keep .4'"),
        ({"a": ["keep .5"]}, "within: the setting 'base' is in no family"),
    ],
)
def test_what_groups_no_settings_is_refused(file, within, what):
    with pytest.raises(SpecError, match=what):
        families(file(), within=within)


@pytest.mark.parametrize(
    "more, what",
    [
        (", looks: 2", ""),  # 1 / (3! 3!) = .028
        (", within: filter.value", ""),  # 1 / 5!
        (", within: filter.value, looks: 4", r"families \(5, 1, 1, 1\) have a smallest p of .008, and .006 is needed"),
        (", within: [], looks: 100", ""),
        (", within: {a: [keep .5, keep .7, keep .9, entropy 0], b: [base, entropy .01, entropy .1, both]}", ""),
        (", within: filter, across: within", "seeds are permuted, and no settings"),
    ],
)
def test_a_claim_that_no_run_can_decide_is_refused_beforehand(file, more, what):
    path = file(claim=CLAIM % more)
    if "looks: 2" in more:
        what = r"8 settings in 4 families \(3, 3, 1, 1\) have a smallest p of .028, and .013 is needed"
    if not what:
        check_entries(load_experiment(path))
        return
    with pytest.raises(SpecError, match=what) as caught:
        check_entries(load_experiment(path))
    assert str(caught.value.where).startswith(f"{path}:") and caught.value.fix


def test_predictions_need_seven_settings_and_gains_need_them_within_tasks(file):
    claim = "{id: it, check: foretells, conditions: filter.value, metrics: {r: probe/retrieval_acc}, at: 8}"
    with pytest.raises(SpecError, match=r"6 settings have a smallest p of \.031, and .025 is needed"):
        check_entries(load_experiment(file(PLAIN, claim)))
    check_entries(load_experiment(file(PLAIN.replace("0.4,", "0.3, 0.4,"), claim, "seven")))


def test_plan_prints_the_smallest_p_and_refuses_before_any_run(file, tmp_path, capsys):
    path = file(claim=CLAIM % ", within: []")
    assert foreseen(load_experiment(path)) == {"it": ["8 settings; smallest p below .0001, needed .025"]}
    assert main(["plan", str(path), "--home", str(tmp_path / "home")]) == 0
    assert "it: 8 settings; smallest p below .0001, needed .025" in capsys.readouterr().out
    assert main(["plan", str(path), "--home", str(tmp_path / "home"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["claims"]["x"]["it"]
    refused = file(claim=CLAIM % "", name="refused")
    assert main(["plan", str(refused), "--home", str(tmp_path / "home")]) != 0
    said = capsys.readouterr().err
    assert "no run can decide this" in said and "within" in said and f"{refused}:" in said
