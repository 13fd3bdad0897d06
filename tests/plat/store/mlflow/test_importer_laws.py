"""The content of a store depends neither on the order of imports nor on the writer."""

from __future__ import annotations

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from store_dump import dump

from plat.store.mlflow import importer
from plat.store.mlflow.client_store import ClientStore
from plat.store.mlflow.importer import import_runs

EXPECTED: dict[str, dict] = {}  # the content after any of the examples, as the first of them left it
HOMES = (f"home{number}" for number in itertools.count())


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(order=st.lists(st.integers(0, 3), max_size=6), through_client=st.booleans())
def test_any_order_any_number_of_times(make_home, recipe, experiment, order, through_client):
    """Importing single runs in any order, repeatedly, through either writer, ends in the same content."""
    recipes = [recipe(0), recipe(1, kills=[(3, 2), (7, 6)]), recipe(2, files=["b", "table4"]), recipe(3, outcome=None)]
    files = [experiment("table4", recipes), experiment("b", recipes[2:3])]
    home = make_home(next(HOMES))
    paths = [item.write(home) for item in recipes]
    for number in order:
        _import(home, paths[number], files, through_client)
    import_runs(home, home.store_uri(), files)
    actual = dump(home.store_uri())
    assert len(actual["ragen2 · laptop"]) == 6
    assert actual == EXPECTED.setdefault("content", actual)


def _import(home, paths, files, through_client):
    if not through_client:
        import_runs(home, home.store_uri(), files, [paths])
        return
    wanted = {run.id: [item.name for item in files if run in item.runs] for item in files for run in item.runs}
    backend, report = ClientStore(home.store_uri(), home), importer.ImportReport()
    infos = {item.name: importer.file_info(item) for item in files}
    importer._import(backend, [str(paths.root)], wanted, infos, report, importer.as_they_are)
    assert not report.warnings()


def test_both_writers_write_the_same(make_home, recipe, experiment, runs_of):
    contents = []
    for name in ("direct", "client"):
        home = make_home(name)
        recipes = [recipe(0, config={"long": "x" * 7000, "odd key@": [1, 2], "empty": {}}), recipe(1, kills=[(6, 4)])]
        paths = [item.write(home) for item in recipes]
        for item in paths:
            _import(home, item, [experiment("table4", recipes)], name == "client")
        contents.append(dump(home.store_uri()))
        assert {len(run.data.params) for run in runs_of(home)} == {7, 4}
    assert contents[0] == contents[1]
