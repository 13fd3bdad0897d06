"""What the importer reads of a run directory before it writes."""

from __future__ import annotations

import json
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from plat.store.mlflow.run_record import read_record
from plat.store.mlflow.spelling import clean_key


@settings(deadline=None)
@given(st.text(max_size=300))
def test_clean_keys_are_accepted_by_mlflow(name):
    from mlflow.utils.validation import _validate_metric, _validate_param, _validate_tag

    key = clean_key(name)
    _validate_metric(key, 1.0, 0, 0)
    _validate_param(key, "x")
    _validate_tag(key, "x")
    assert clean_key(key) == key


def test_names_in_use_are_kept():
    for name in ("val/success", "recall_at_2/4", "mi/first_turn/h_z_given_x_seq", "train.lr", "plat.in.table4"):
        assert clean_key(name) == name


def test_a_record_does_not_depend_on_when_it_is_read(home, recipe):
    paths = recipe(1, kills=[(6, 4)]).write(home)
    first = read_record(paths)
    time.sleep(0.01)
    assert read_record(paths) == first and first.points == sorted(first.points, key=lambda point: point[1::-1])
    assert json.loads(first.artifacts["tables.jsonl"].splitlines()[1]) == {
        "name": "reward_matrix", "step": 4, "data": [[4, 0.5], [1, None]],
    }  # fmt: skip
