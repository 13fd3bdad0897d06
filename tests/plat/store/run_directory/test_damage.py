"""Damaged histories: named with file and line, never published as if whole, and fixed by doing the run again."""

from __future__ import annotations

import shutil

import pytest
from store_dump import dump

from plat.store.disk.durable import read_json, to_checked_json, write
from plat.store.mlflow.frames import Store
from plat.store.mlflow.importer import import_runs
from plat.store.run_directory.run_files import CONFIG_FIX


def edit_lines(paths, change, attempt=1):
    """Rewrite the lines of an attempt's spool."""
    events = paths.attempt(attempt).events
    lines = events.read_bytes().splitlines(keepends=True)
    change(lines)
    events.write_bytes(b"".join(lines))


def edit_result(paths, **facts):
    write(paths.result, to_checked_json({**read_json(paths.result), **facts}))


def garble(lines):
    lines[4] = b"{garbage\n"


def flip_a_digit(lines):
    at = lines[4].index(b"val/success") + 18
    assert chr(lines[4][at]).isdigit()
    lines[4] = lines[4][:at] + (b"8" if lines[4][at : at + 1] != b"8" else b"7") + lines[4][at + 1 :]


def replace_by_folder(path):
    path.unlink()
    path.mkdir()


def lose_events(paths, kept):
    edit_lines(paths, lambda lines: lines.__delitem__(slice(kept, None)))
    edit_result(paths, events={"1": kept})


def edit_config(paths):
    text = paths.config.read_text()
    paths.config.write_text(text.replace("0.0003", "0.0004"))


DAMAGES = {
    "attempts/001/events.jsonl line 5 is damaged": lambda paths: edit_lines(paths, garble),
    "the events end at step 5 of 8": lambda paths: lose_events(paths, 8),
    "there are no events": lambda paths: lose_events(paths, 0),
    "the last line of attempts/001/events.jsonl is cut": lambda paths: edit_lines(
        paths, lambda lines: lines.append(b'{"step": 8, "ti')
    ),
    "the success 0.25 of result.json is not in the events": lambda paths: edit_result(paths, success=0.25),
    "attempts/001/events.jsonl lacks event 5 of 12": lambda paths: edit_lines(paths, lambda lines: lines.pop(4)),
    "lacks events 5 to 6 of 12": lambda paths: edit_lines(paths, lambda lines: lines.__delitem__(slice(4, 6))),
    "lacks event 2 and others of 12": lambda paths: edit_lines(paths, lambda lines: (lines.pop(9), lines.pop(1))),
    "001/events.jsonl line 5 is damaged": lambda paths: edit_lines(paths, flip_a_digit),
    "001/events.jsonl cannot be read: Is a directory": lambda paths: replace_by_folder(paths.attempt(1).events),
    "config.yaml differs from the config that the run was made with": edit_config,
}


@pytest.mark.parametrize("says", DAMAGES)
def test_a_damaged_run_is_named_every_time_and_has_no_results(home, recipe, experiment, says):
    recipes = [recipe(1), recipe(2)]
    paths, _ = (item.write(home) for item in recipes)
    DAMAGES[says](paths)
    file = experiment("table4", recipes)
    for _ in range(2):
        report = import_runs(home, home.store_uri(), [file])
        assert list(report.damaged) == [paths.id] and says in str(report.damaged[paths.id])
        (line,) = report.warnings()
        fix = CONFIG_FIX if says.startswith("config") else "remove the run's directory and sweep again"
        assert paths.id in line and says in line and fix in line
        frames = Store(home.store_uri(), home).load(file)
        assert list(frames.runs.outcome) == ["damaged", "finished"]
        assert set(frames.metrics.run_id) == set(frames.tables.run_id) == {recipes[1].id}
    assert report.unchanged == 1


def test_what_a_trainer_says_of_itself_is_no_evidence(home, recipe):
    """A rounded peak success in the summary is not damage."""
    paths = recipe(1).write(home)
    edit_result(paths, summary={"peak_success": 0.5})
    report = import_runs(home, home.store_uri())
    assert report.imported == [paths.id] and not report.damaged


@pytest.mark.parametrize("damage", ["", "{", '{"step": 8}', "flip", "folder"])
def test_a_damaged_result_is_named_and_makes_no_run_done(home, recipe, experiment, damage):
    paths = recipe(1).write(home)
    if damage == "folder":
        replace_by_folder(paths.result)
    elif damage == "flip":
        write(paths.result, to_checked_json(read_json(paths.result)))
        write(paths.result, paths.result.read_bytes().replace(b'"step": 8', b'"step": 9'))
    else:
        paths.result.write_text(damage)
    report = import_runs(home, home.store_uri(), [experiment("table4", [recipe(1)])])
    assert str(report.damaged[paths.id]).startswith("result.json is damaged")
    frames = Store(home.store_uri(), home).load(experiment("table4", [recipe(1)]))
    assert list(frames.runs.outcome) == [None]


def test_a_changed_config_leaves_no_trace_in_the_store(home, recipe, experiment):
    paths = recipe(1).write(home)
    edit_config(paths)
    import_runs(home, home.store_uri())
    stored = dump(home.store_uri())["ragen2 · laptop"][paths.id]
    assert not stored["params"] and "config.yaml" not in stored["artifacts"]


def test_doing_it_again_mends_it(home, recipe, experiment):
    single = recipe(1)
    file = experiment("table4", [single])
    paths = single.write(home)
    edit_lines(paths, garble)
    import_runs(home, home.store_uri(), [file])
    shutil.rmtree(paths.root)
    single.write(home)
    report = import_runs(home, home.store_uri(), [file])
    assert report.imported == [single.id] and not report.damaged
    frames = Store(home.store_uri(), home).load(file)
    assert list(frames.runs.outcome) == ["finished"] and len(frames.metrics) == 4 * 9 and len(frames.tables) == 3


def test_what_the_store_holds_whole_stays(home, recipe, experiment):
    """Damage that comes after the import is named when the run is read again, and changes nothing that was stored."""
    single = recipe(1)
    paths = single.write(home)
    file = experiment("table4", [single])
    import_runs(home, home.store_uri(), [file])
    before = Store(home.store_uri(), home).load(file)
    edit_lines(paths, garble)
    report = import_runs(home, home.store_uri(), [file, experiment("other", [single])])
    assert list(report.damaged) == [single.id]
    after = Store(home.store_uri(), home).load(file)
    assert after.metrics.equals(before.metrics) and list(after.runs.outcome) == ["finished"]


def test_a_lost_earlier_attempt(home, recipe):
    """Without its checkpoints (or its events) nobody can say which of an earlier attempt's steps count."""
    paths = recipe(1, kills=[(6, 4)]).write(home)
    write(paths.attempt(2).meta, to_checked_json({"run": paths.id, "restored_step": 4}))
    shutil.rmtree(paths.attempt(1).checkpoints)
    report = import_runs(home, home.store_uri())
    assert report.imported == [] and "attempts/001 (or its checkpoints) is gone" in str(report.damaged[paths.id])
    edit_result(paths, events={"2": 5})
    assert "reached step 4 are gone" in str(import_runs(home, home.store_uri()).damaged[paths.id])


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
    assert "line 5" in str(report.damaged[paths.id])
