"""What the importer reads of a run directory before it writes."""

from __future__ import annotations

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from plat.store.mlflow.run_record import read_record
from plat.store.mlflow.run_tags import KEY_LENGTH, clean_key, metric_key, metric_name


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
    assert read_record(paths) == first and read_record(paths).sha256 == first.sha256
    assert [table[:3] for table in first.tables][1] == ("reward_matrix", 4, [[4, 0.5], [1, None]])
    assert len(first.mirror()) == len(first.metrics) and len(first.mirror(curves=False)) == 4


NAMES = [
    "pass@1", "pass^1", "pass_1", "pass_x40_1", "_x4@", "_x5F_x40_", "len<10", "f1 (a)", "f1 [a]", 
    "a//b", "a/b", "a", "./a", "..",
    "/a", "é漢", "loss_x2", "_" , "a" * 249 + "@", "a" * 300 + "b", "a" * 300 + "c", "a@_x", "x_x10FFFF_"
]  # fmt: skip


def test_metrics_are_stored_one_to_one_under_names_that_mlflow_accepts():
    keys = [metric_key(name) for name in NAMES]
    assert len(set(keys)) == len(NAMES) and all(clean_key(key) == key for key in keys)
    short = [name for name, key in zip(NAMES, keys, strict=True) if len(key) < KEY_LENGTH]
    assert len(short) >= len(NAMES) - 3 and [metric_name(metric_key(name)) for name in short] == short
    assert all(metric_key(name) == name for name in ("val/acc", "a b:c-d.e", "loss_x2", "pass_1"))
