"""The artifact of a run: what it holds, that an edit is named and restored, and that a killed import leaves nothing."""

from __future__ import annotations

import json
import math
import shutil

import pytest
from store_dump import dump

from plat.app.checking import check_results
from plat.store.measured import ARTIFACT, NAME, Measured, conflict, decode, encode, sha256_of
from plat.store.mlflow import importer, store_writer
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.mlflow_client import mlflow_client
from plat.store.mlflow.stored_runs import MEASURED, stored_runs
from plat.store.run_directory.history import Metric, Table
from plat.store.run_directory.run_files import read_result


@pytest.fixture
def filled(home, recipe, experiment):
    """A home with two done runs in its store, and the file that asks for them."""
    recipes = [recipe(1), recipe(2)]
    for item in recipes:
        item.write(home)
    file = experiment("table4", recipes)
    import_runs(home, home.store_uri(), [file])
    return home, file


def artifact_of(home, run_id):
    run = stored_runs(home, home.store_uri())[run_id]
    return home.root / "mlartifacts" / run.folder.split("/mlartifacts/")[1] / ARTIFACT


def test_what_is_encoded_is_decoded():
    rows = [Metric("b", 1, math.inf, 2.5), Metric("a", 3, math.nan, 1.0), Metric("a", 2, -0.0, 1.25)]
    tables = [Table("t", 2, {"x": [1, None, "é"]}, 4.0), Table("t", 1, [], 3.0)]
    data = encode({"tags": {}, "axes": {"seed": 1}}, rows, tables)
    assert data == encode({"tags": {}, "axes": {"seed": 1}}, rows[::-1], tables[::-1])
    found = decode(data)
    assert [repr(row) for row in found.history()[0]] == [repr(row) for row in (rows[2], rows[1], rows[0])]
    assert found.history()[1] == tables[::-1] and found.facts["axes"] == {"seed": 1}
    series = found.series()
    assert (series.keys, series.counts, series.steps.tolist()) == (["a", "b"], [2, 1], [2, 3, 1])
    assert decode(encode({}, [], [])).series().keys == []


@pytest.mark.parametrize("data", [b"", b"PAR1", b"nonsense" * 100])
def test_another_file_is_refused(data):
    with pytest.raises(ValueError, match="cannot be read"):
        decode(data)


def test_values_of_which_one_side_has_none_are_no_conflict():
    one, other = (
        decode(encode({"tags": {}}, [Metric("a", 1, value, 0.0), Metric("time/s", 1, value, 0.0), extra], []))
        for value, extra in ((1.0, Metric("b", 1, 5.0, 0.0)), (1.0, Metric("c", 1, math.nan, 0.0)))
    )
    assert conflict(one, other) == ""
    changed = decode(encode({"tags": {}}, [Metric("a", 1, 2.0, 0.0)], []))
    assert conflict(changed, one) == "a at step 1 is 2.0, stored is 1.0"


def test_its_hash_is_in_the_tags_and_in_the_result(filled):
    home, file = filled
    for run in stored_runs(home, home.store_uri()).values():
        data = artifact_of(home, run.id).read_bytes()
        assert run.measured == sha256_of(data) == read_result(home.run(run.id))["measured"]
        assert isinstance(decode(data), Measured)
    assert import_runs(home, home.store_uri(), [file]).unchanged == 2


@pytest.mark.parametrize("outcome", ["failed:oom", "stopped:low_success", "cancelled", None])
def test_runs_that_did_not_finish_log_what_they_have(home, recipe, outcome):
    single = recipe(1, outcome=outcome, steps=4)
    single.write(home)
    import_runs(home, home.store_uri())
    facts = decode(artifact_of(home, single.id).read_bytes())
    assert facts.facts["tags"].get("plat.outcome") == outcome and len(facts.history()[0]) == 4 * 5


@pytest.mark.parametrize("how", ["another run's", "edited", "emptied", "removed", "tag"])
def test_a_changed_run_has_no_results_until_it_is_restored(filled, how):
    home, file = filled
    uri, changed = home.store_uri(), file.runs[0].id
    before, expected = dump(uri), Store(uri, home).load(file)
    path, other = (artifact_of(home, run.id) for run in file.runs)
    whole = path.read_bytes()
    if how == "removed":
        path.unlink()
    elif how == "another run's":
        shutil.copy(other, path)
    elif how == "tag":
        mlflow_client(uri).set_tag(stored_runs(home, uri)[changed].mlflow_id, MEASURED, "0" * 64)
    else:
        path.write_bytes(whole[:-9] + b"x" + whole[-8:] if how == "edited" else b"")
    frames = Store(uri, home).load(file)
    assert list(frames.changed) == [changed] and list(frames.runs.outcome) == ["damaged", "finished"]
    assert changed not in {*frames.metrics.run_id, *frames.tables.run_id}
    assert any(changed in finding.says for finding in check_results(home, uri, fix=False))
    report = import_runs(home, uri, runs=[home.run(changed)], again=True)
    assert list(report.restored) == [changed] and changed in report.warnings()[0]
    restored = Store(uri, home).load(file)
    assert not restored.changed and restored.metrics.equals(expected.metrics) and restored.runs.equals(expected.runs)
    assert dump(uri) == before and path.read_bytes() == whole


def test_the_mirror_in_mlflow_is_not_read(filled):
    """Whoever changes a number or a tag in MLflow's tables changes no report."""
    home, file = filled
    expected = Store(home.store_uri(), home).load(file)
    client = mlflow_client(home.store_uri())
    run = stored_runs(home, home.store_uri())[file.runs[0].id].mlflow_id
    client.log_metric(run, "val/success", 0.999, step=8)
    client.set_tag(run, "plat.summary.parameters", "7")
    frames = Store(home.store_uri(), home).load(file)
    assert not frames.changed and frames.metrics.equals(expected.metrics) and frames.runs.equals(expected.runs)


@pytest.mark.parametrize("step", ["create_run", "log_files", "set_terminated", "log_batch"])
def test_an_import_that_ends_in_the_middle_leaves_nothing_half(make_home, recipe, experiment, monkeypatch, step):
    """What was begun has no hash: no reader takes it, and the next import completes it, as one run."""
    alone, home = make_home("alone"), make_home("home")
    recipes = [recipe(1), recipe(2)]
    for item in recipes:
        item.write(alone), item.write(home)
    file = experiment("table4", recipes)
    import_runs(alone, alone.store_uri(), [file])
    import_runs(home, home.store_uri(), [file], runs=[home.run(recipes[0].id)])
    opened = store_writer.mlflow_client

    def stopping(uri):
        client = opened(uri)
        place = store_writer if step == "log_files" else client
        real = getattr(place, step)

        def stop(*arguments, **named):
            if step == "create_run":
                real(*arguments, **named)
            raise KeyboardInterrupt

        patched.setattr(place, step, stop)
        return client

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(store_writer, "mlflow_client", stopping)
        import_runs(home, home.store_uri(), runs=[home.run(recipes[1].id)])
    frames = Store(home.store_uri(), home).load(file)
    assert list(frames.runs.run_id) == [recipes[0].id] and not frames.changed
    assert recipes[1].id in import_runs(home, home.store_uri(), [file]).imported
    assert dump(home.store_uri()) == dump(alone.store_uri())


def test_long_curves_are_thinned_in_mlflow_and_whole_in_the_artifact(home, recipe, runs_of):
    single = recipe(1, steps=2000)
    single.write(home)
    import_runs(home, home.store_uri())
    (run,) = runs_of(home)
    client = mlflow_client(home.store_uri())
    history = client.get_metric_history(run.info.run_id, "val/success")
    assert len(history) == 150 and (history[0].step, history[-1].step) == (0, 2000)
    assert run.data.metrics["val/success"] == single.metrics(2000, "val/success")
    assert len(decode(artifact_of(home, single.id).read_bytes()).history()[0]) == 4 * 2001


def test_runs_of_other_tools_mirror_their_last_values(home, recipe, runs_of, monkeypatch):
    made = recipe(1)
    meta = type(made).meta
    monkeypatch.setattr(type(made), "meta", lambda self: {**meta(self), "trainer": "recorded"})
    made.write(home)
    import_runs(home, home.store_uri())
    client, (run,) = mlflow_client(home.store_uri()), runs_of(home)
    assert [point.step for point in client.get_metric_history(run.info.run_id, "val/success")] == [8]
    import_runs(home, home.store_uri(), again=True, curves=True)
    assert len(client.get_metric_history(run.info.run_id, "val/success")) == 9


def test_the_list_of_runs_is_a_cache(filled, monkeypatch):
    """MLflow is not asked while its store is unchanged; the list may be damaged or deleted at any time."""
    home, file = filled
    uri = home.store_uri()
    (kept,) = (home.cache / "stores").iterdir()
    expected = stored_runs(home, uri)
    for content in (None, "{", json.dumps({"format": 1}), "[]"):
        kept.unlink() if content is None else kept.write_text(content)
        assert stored_runs(home, uri) == expected
    with monkeypatch.context() as patched:
        patched.setattr("plat.store.mlflow.stored_runs.mlflow_client", None)
        patched.setattr(importer, "open_writer", None)
        assert stored_runs(home, uri) == expected and import_runs(home, uri, [file]).unchanged == 2
    mlflow_client(uri).delete_run(expected[file.runs[0].id].mlflow_id)
    assert stored_runs(home, uri)[file.runs[0].id].deleted


def test_a_run_under_the_id_of_another_is_named(filled):
    """Whoever exchanges the ids of two runs in MLflow changes no report."""
    home, file = filled
    expected, client = Store(home.store_uri(), home).load(file), mlflow_client(home.store_uri())
    one, other = (stored_runs(home, home.store_uri())[run.id] for run in file.runs)
    for run, to in ((one, other), (other, one)):
        client.set_tag(run.mlflow_id, "plat.id", to.id)
    frames = Store(home.store_uri(), home).load(file)
    assert {problem.split(" is ")[1] for problem in frames.changed.values()} == {
        f"of run {run.id}" for run in file.runs
    }
    import_runs(home, home.store_uri(), [file])
    restored = Store(home.store_uri(), home).load(file)
    assert not restored.changed and restored.metrics.equals(expected.metrics)


def test_there_is_one_file_of_each_run(filled):
    home, _ = filled
    assert len(list((home.root / "mlartifacts").rglob(NAME))) == 2
