"""Files with values of other types than plat writes: one such folder is named, and never stops the others."""

from __future__ import annotations

import math

import pytest

from plat.store.disk.durable import read_json, to_checked_json
from plat.store.mlflow.importer import import_runs
from plat.store.mlflow.run_record import read_record
from plat.store.run_directory.state import run_state

BAD = [
    ("meta.json", {"axes": 7}),
    ("meta.json", {"code": {"plug_ins": [{}]}}),
    ("meta.json", {"code": {"versions": 3}}),
    ("meta.json", {"scale": 7}),
    ("meta.json", {"created": "yesterday"}),
    ("result.json", {"time": math.inf}),
    ("result.json", {"time": None}),
    ("result.json", {"success": "zz"}),
    ("result.json", {"attempt": None}),
    ("result.json", {"summary": [1]}),
    ("attempts/001/attempt.json", {"facts": [1]}),
]


@pytest.mark.parametrize(("name", "change"), BAD)
def test_a_value_of_a_wrong_type_is_damage(home, recipe, name, change):
    paths = recipe(1).write(home)
    recipe(2).write(home)
    file = paths.root / name
    file.write_bytes(to_checked_json((read_json(file) or {"run": paths.id}) | change))
    record = read_record(paths)
    assert record is None or f"{file.name} is damaged: its {next(iter(change))} is not" in str(record.damage)
    assert run_state(paths).state in ("done", "interrupted", "missing")
    report = import_runs(home, home.store_uri())
    assert report.exit_code == 3 and paths.id in (*report.unreadable, *report.damaged)
    assert report.imported[-1:] == [recipe(2).id]


def test_an_outcome_of_wrong_types_says_nothing(home, recipe):
    paths = recipe(1, outcome="failed:oom").write(home)
    paths.attempt(1).outcome.write_bytes(to_checked_json({"run": paths.id, "outcome": 5, "time": "zz"}))
    assert run_state(paths).state == "interrupted" and read_record(paths).status == "RUNNING"


def test_an_attempt_file_that_cannot_be_read_is_damage(home, recipe):
    paths = recipe(1).write(home)
    paths.attempt(1).meta.write_text("{")
    assert str(read_record(paths).damage) == "attempts/001/attempt.json is damaged"
