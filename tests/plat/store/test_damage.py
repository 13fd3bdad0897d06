"""Damaged histories: named with file and line, never published as if whole, and mended by doing the run again."""

from __future__ import annotations

import json
import shutil

import pytest

from plat.store.durable import read_json, to_json, write
from plat.store.importer import import_runs
from plat.store.reader import Store


def edit_lines(paths, change, attempt=1):
    """Rewrite the lines of an attempt's spool."""
    events = paths.attempt(attempt).events
    lines = events.read_bytes().splitlines(keepends=True)
    change(lines)
    events.write_bytes(b"".join(lines))


def edit_result(paths, **facts):
    write(paths.result, to_json({**read_json(paths.result), **facts}))


def garble(lines):
    lines[4] = b"{garbage\n"


def flip_success(lines):
    for at, line in enumerate(lines):
        found = json.loads(line)
        if "val/success" in found.get("metrics", {}):
            found["metrics"]["val/success"] += 1.0
            lines[at] = to_json(found)


DAMAGES = {
    "attempts/001/events.jsonl line 5 is damaged": lambda paths: edit_lines(paths, garble),
    "the events end at step 5 of 8": lambda paths: edit_lines(paths, lambda lines: lines.__delitem__(slice(-4, None))),
    "there are no events": lambda paths: paths.attempt(1).events.unlink(),
    "the last line of attempts/001/events.jsonl is cut": lambda paths: edit_lines(
        paths, lambda lines: lines.append(b'{"step": 8, "ti')
    ),
    "the success 0.25 of result.json is not in the events": lambda paths: edit_result(paths, success=0.25),
    "the peak success 0.5 of result.json is not": lambda paths: edit_result(paths, summary={"peak_success": 0.5}),
}


@pytest.mark.parametrize("says", DAMAGES)
def test_a_damaged_run_is_named_every_time_and_has_no_results(home, recipe, experiment, says):
    recipes = [recipe(1), recipe(2)]
    paths, _ = (each.write(home) for each in recipes)
    DAMAGES[says](paths)
    file = experiment("table4", recipes)
    for _ in range(2):
        report = import_runs(home, home.store_uri(), [file])
        assert list(report.damaged) == [paths.id] and says in report.damaged[paths.id]
        (line,) = report.warnings()
        assert paths.id in line and says in line and "remove the run's directory and sweep again" in line
        frames = Store(home.store_uri(), home).load(file)
        assert list(frames.runs.outcome) == ["damaged", "finished"]
        assert set(frames.metrics.run_id) == set(frames.tables.run_id) == {recipes[1].id}
    assert report.unchanged == 1


def test_doing_it_again_mends_it(home, recipe, experiment):
    one = recipe(1)
    file = experiment("table4", [one])
    paths = one.write(home)
    edit_lines(paths, garble)
    import_runs(home, home.store_uri(), [file])
    shutil.rmtree(paths.root)
    one.write(home)
    report = import_runs(home, home.store_uri(), [file])
    assert report.imported == [one.id] and not report.damaged
    frames = Store(home.store_uri(), home).load(file)
    assert list(frames.runs.outcome) == ["finished"] and len(frames.metrics) == 4 * 9 and len(frames.tables) == 3


def test_what_the_store_holds_whole_stays(home, recipe, experiment):
    """Damage that comes after the import is named when the run is read again, and changes nothing that was stored."""
    one = recipe(1)
    paths = one.write(home)
    file = experiment("table4", [one])
    import_runs(home, home.store_uri(), [file])
    before = Store(home.store_uri(), home).load(file)
    edit_lines(paths, garble)
    report = import_runs(home, home.store_uri(), [file, experiment("other", [one])])
    assert list(report.damaged) == [one.id]
    after = Store(home.store_uri(), home).load(file)
    assert after.metrics.equals(before.metrics) and list(after.runs.outcome) == ["finished"]


def test_a_lost_earlier_attempt(home, recipe):
    """Without its checkpoints (or its events) nobody can say which of an earlier attempt's steps count."""
    paths = recipe(1, kills=[(6, 4)]).write(home)
    write(paths.attempt(2).meta, to_json({"restored_step": 4}))
    shutil.copytree(paths.root, home.run(recipe(2).id).root)
    shutil.rmtree(paths.attempt(1).checkpoints)
    report = import_runs(home, home.store_uri())
    assert report.imported == [recipe(2).id] and "reached step 4 are gone" in report.damaged[paths.id]


def test_lines_that_do_not_count_are_no_damage(home, recipe):
    """A power cut may leave anything behind the newest checkpoint of an attempt; the next attempt does it again."""
    paths = recipe(1, kills=[(6, 4)]).write(home)
    edit_lines(paths, lambda lines: lines.append(b"\0\0\0\n"))
    report = import_runs(home, home.store_uri())
    assert report.imported == [paths.id] and not report.damaged


def test_a_run_that_goes_on_is_named_and_imported(home, recipe):
    paths = recipe(1, outcome=None).write(home)
    edit_lines(paths, garble)
    report = import_runs(home, home.store_uri())
    assert "line 5" in report.damaged[paths.id]
