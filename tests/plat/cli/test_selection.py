"""`--where`: which runs fulfil the conditions, and what is said of conditions that make no sense."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mlflow.entities import ViewType

from plat.app.run_selection import parse_where
from plat.errors import SpecError
from plat.store.home import Home
from plat.store.mlflow.mlflow_client import find_runs, mlflow_client

RUN = {"task": "sokoban", "filter.value": 0.9, "seed": 0, "switch": True, "success": None, "odd": "a=b"}


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([], True),
        (["task=sokoban"], True),
        (["task=frozenlake"], False),
        (["task=frozenlake", "task=sokoban"], True),
        (["task=frozenlake", "task=sokoban", "seed=1"], False),
        (["task!=frozenlake", "task!=countdown"], True),
        (["task!=frozenlake", "task!=sokoban"], False),
        (["filter.value=0.90"], True),
        (["filter.value=9e-1", "seed=0.0"], True),
        (["filter.value>=0.9", "filter.value<1"], True),
        (["filter.value>0.9"], False),
        (["switch=true"], True),
        (["success>0"], False),
        (["success!=1"], True),
        (["success=null"], True),
        (["odd=a=b"], True),
        ([" task = sokoban "], True),
    ],
)
def test_conditions(conditions, expected):
    assert parse_where(conditions).holds(RUN.get) is expected


@pytest.mark.parametrize(
    ("condition", "what"),
    [("foo", "takes KEY=VALUE"), ("=x", "takes KEY=VALUE"), ("success>a", "needs a number"), ("", "takes KEY=VALUE")],
)
def test_what_is_no_condition_is_refused_with_its_place(condition, what):
    with pytest.raises(SpecError, match=what) as caught:
        parse_where([condition])
    assert caught.value.where == f"the command line: --where {condition}" and caught.value.fix


def test_keys_and_values_that_no_run_has_get_the_nearest():
    known = {"task": ["sokoban", "frozenlake"], "seed": [0]}
    values = known | {"train.lr": [0.1]}

    def check(conditions):
        keys = lambda: ["train.lr", "model.path"]  # noqa: E731
        parse_where(conditions).check(list(known), keys, lambda key: values.get(key, ()))

    for condition, near in (
        ("tsak=sokoban", "'task'"),
        ("task=sokobann", "'sokoban'"),
        ("train.l=1", "'train.lr'"),
    ):
        with pytest.raises(SpecError) as caught:
            check([condition])
        assert f"did you mean {near}?" in str(caught.value.fix)
    check(["val/anything>0", "seed=0", "model.path=null"])
    with pytest.raises(SpecError) as caught:
        check(["quux=1"])
    assert "axes and columns: task, seed; or a key of the configs" in str(caught.value.fix)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_comparisons_are_those_of_numbers(given_value, limit):
    for sign, expected in (("<", given_value < limit), (">=", given_value >= limit), ("=", given_value == limit)):
        assert parse_where([f"x{sign}{limit!r}"]).holds({"x": given_value}.get) is expected


def test_a_beginning_that_several_runs_share_is_refused_with_its_place(plat, home, executed):
    """Seventeen ids and sixteen letters: two of them begin alike."""
    ids = [executed(seed=seed).id for seed in range(17)]
    shared = next(letter for letter in "0123456789abcdef" if sum(run_id[0] == letter for run_id in ids) > 1)
    code, _, err = plat("why", shared)
    assert code == 2 and f"at: {home / 'runs'}" in err and "is the beginning of" in err


def test_a_run_is_named_by_its_id_in_mlflow(plat, home, executed):
    run = executed(seed=0)
    unknown = "0" * 32
    assert plat("why", unknown)[0] == 2
    assert plat("sync")[0] == 0
    (found,) = find_runs(mlflow_client(Home(home).store_uri()), "tags.`plat.kind` = 'run'", ViewType.ACTIVE_ONLY)
    code, out, _ = plat("why", found.info.run_id)
    assert code == 0 and run.id in out
    code, _, err = plat("why", unknown)
    assert code == 2 and f"no run '{unknown}'" in err
