"""The content of a store depends not on the order of imports."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_dump import dump

from plat.store.mlflow.importer import import_runs

EXPECTED: dict[str, dict] = {}  # the content after any of the examples, as the first of them left it
HOMES = (f"home{number}" for number in itertools.count())


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.lists(st.integers(0, 3), max_size=6))
def test_any_order_any_number_of_times(make_home, recipe, experiment, order):
    """Importing single runs in any order, repeatedly, ends in the same content."""
    recipes = [recipe(0), recipe(1, kills=[(3, 2), (7, 6)]), recipe(2, files=["b", "table4"]), recipe(3, outcome=None)]
    files = [experiment("table4", recipes), experiment("b", recipes[2:3])]
    home = make_home(next(HOMES))
    paths = [item.write(home) for item in recipes]
    for number in order:
        import_runs(home, home.store_uri(), files, [paths[number]])
    import_runs(home, home.store_uri(), files)
    actual = dump(home.store_uri())
    assert len(actual["ragen2 · laptop"]) == 6
    assert actual == EXPECTED.setdefault("content", actual)


def test_texts_that_mlflow_refuses_are_cut(home, recipe, runs_of):
    recipes = [recipe(0, config={"long": "x" * 7000, "odd key@": [1, 2], "empty": {}}), recipe(1, kills=[(6, 4)])]
    for item in recipes:
        item.write(home)
    import_runs(home, home.store_uri())
    assert {len(run.data.params) for run in runs_of(home)} == {7, 4}
