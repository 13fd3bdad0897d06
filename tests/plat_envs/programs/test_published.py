"""Problems of DeepCoder-Preview: read when they are played, and split by their hashes."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest

from plat_envs.api import configure, find_environment, make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.instances import SPLITS
from plat_envs.programs import published, rows
from plat_envs.programs.published import is_countable
from plat_envs.programs.rows import INDEX, JsonLines, file_rows, key_of

# Rows of our own in the shapes of the parts of the dataset.
ROWS = json.loads(Path(__file__).with_name("published_rows.json").read_text(encoding="utf-8"))
SHAPES = list(ROWS.values())


def many(count=60):
    """Rows with different problems, in all shapes."""
    return [SHAPES[n % 6] | {"problem": f"{SHAPES[n % 6]['problem']} Number {n}."} for n in range(count)]


def written(path, kind, content):
    path = path / f"problems.{kind}"
    if kind == "parquet":
        import pyarrow
        import pyarrow.parquet

        names = {name for row in content for name in row}
        texts = [{name: _column(row.get(name)) for name in sorted(names)} for row in content]
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(texts), path, row_group_size=7)
    else:
        text = json.dumps(content) if kind == "json" else "\n".join(map(json.dumps, content)) + "\n\n"
        path.write_text(text, encoding="utf-8")
    file_rows.cache_clear()
    published.published_problem.cache_clear()
    published._pool.cache_clear()
    return str(path)


def _column(value):
    return json.dumps(value) if isinstance(value, dict) else value


@pytest.mark.parametrize("kind", ["jsonl", "parquet", "json"])
def test_references_of_real_problems_pass(tmp_path, kind):
    path = written(tmp_path, kind, many(60))
    environment = make_environment("deepcoder", {"data": "file", "path": path}, "train", "chat")
    functions = set()
    for seed in range(8):
        first = environment.reset(seed)
        assert "Number" in first and "Example" not in first
        functions.add(environment.given.function)
        _, reward, done, info = environment.step(environment.demonstrate(random.Random(0), "template"))
        assert (reward, done, info["success"]) == (1.0, True, True)
    assert functions == {None, "add"}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_row_is_read_when_it_is_played(tmp_path, kind, monkeypatch):
    path = written(tmp_path, kind, many(40))
    content = file_rows(path)
    assert [content.row(n)["problem"] for n in (39, 0, 7, 6)] == [many(40)[n]["problem"] for n in (39, 0, 7, 6)]
    if kind == "jsonl":
        assert os.path.exists(path + INDEX)
        monkeypatch.setattr(JsonLines, "_all", lambda self: pytest.fail("the index is not used"))
        assert JsonLines(path).keys == content.keys


def test_a_changed_file_gets_a_new_index_and_a_damaged_index_is_made_again(tmp_path):
    path = written(tmp_path, "jsonl", many(12))
    assert len(file_rows(path).keys) == 12
    written(tmp_path, "jsonl", many(13))
    assert len(file_rows(path).keys) == 13
    (tmp_path / f"problems.jsonl{INDEX}").write_text('{"state": 1')
    assert len(JsonLines(path).keys) == 13


@pytest.mark.parametrize(
    "kept",
    ["", "{}", '{"rows": 3}', '{"rows": []}', '{"rows": [3]}', '{"rows": [["a", 0]]}', '{"rows": [["a", "b", 1]]}',
     '{"rows": [["a", -5, 1]]}', '{"rows": [[1, 0, 1]]}', '{"rows": null}', '{"rows": ' + "[" * 100_000],
)  # fmt: skip
def test_an_index_of_the_right_state_and_a_wrong_form_is_made_again(tmp_path, kept):
    path = written(tmp_path, "jsonl", many(12))
    keys, index = JsonLines(path).keys, tmp_path / f"problems.jsonl{INDEX}"
    state = json.dumps(json.loads(index.read_text())["state"])
    index.write_text(kept.replace("{", f'{{"state": {state}, ', 1))
    assert JsonLines(path).keys == keys and len(json.loads(index.read_text())["rows"]) == 12


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_a_file_that_changes_under_a_run_is_an_error_never_another_row(tmp_path, kind):
    path = written(tmp_path, kind, many(12))
    content = file_rows(path)
    written(tmp_path, kind, many(13)[::-1])
    with pytest.raises(BadEnvironment, match=r"the file changed while it was in use \| .*problems\."):
        content.row(0)


def test_an_index_that_cannot_be_written_is_kept_in_memory(tmp_path, monkeypatch):
    path = written(tmp_path, "jsonl", many(12))
    monkeypatch.setattr(rows.os, "replace", lambda *_: (_ for _ in ()).throw(PermissionError()))
    assert len(JsonLines(path).keys) == 12 and not os.path.exists(path + INDEX)


def problems_of(path, of, **options):
    environment = make_environment("deepcoder", {"data": "file", "path": path, **options}, of, "chat")
    return {environment.problem for seed in range(120) if environment.reset(seed)}


def test_splits_are_honest_unless_the_released_ones_are_asked_for(tmp_path):
    path = written(tmp_path, "jsonl", many(120))
    honest = {split: problems_of(path, split) for split in SPLITS if split != "base"}
    assert sum(map(len, honest.values())) == len(set().union(*honest.values())) == 120
    released = {split: problems_of(path, split, split="released") for split in honest}
    assert released["train"] == released["validation"] == honest["train"]
    assert released["heldout"] == honest["heldout"]


def test_a_problem_is_the_same_whatever_its_white_space():
    assert key_of({"problem": "a  b\n"}, "") == key_of({"problem": "a b"}, "") != key_of({"problem": "ab"}, "")


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("jsonl", "{", "no JSON"),
        ("jsonl", "3", "no JSON object"),
        ("jsonl", '{"problem": ' + "[" * 100_000, "no JSON: maximum recursion"),
        ("json", "[" * 100_000, "cannot read the data: maximum recursion"),
        ("jsonl", '{"problem": ""}', "without the text `problem`"),
        ("parquet", "no parquet", "cannot read the data"),
        ("jsonl", "", "no usable row"),
    ],
)
def test_a_bad_file_is_one_message(tmp_path, kind, content, said):
    path = written(tmp_path, "jsonl", many(1)).replace("jsonl", kind)
    with open(path, "w") as file:
        file.write(content)
    file_rows.cache_clear()
    with pytest.raises(BadEnvironment, match=said):
        make_environment("deepcoder", {"data": "file", "path": path}, "train", "chat").reset(0)


def test_a_missing_file_and_data_that_do_not_fit():
    with pytest.raises(BadEnvironment, match="No such file"):
        make_environment("deepcoder", {"data": "file", "path": "/nowhere.jsonl"}, "train", "chat").reset(0)
    with pytest.raises(BadEnvironment, match="no compact rendering"):
        make_environment("deepcoder", {"data": "file", "path": "/nowhere.jsonl"})
    with pytest.raises(BadEnvironment, match="path is empty"):
        make_environment("deepcoder", {"data": "file"}, rendering="chat")


def test_planning_reads_no_large_file_and_names_the_files(tmp_path, monkeypatch):
    path = written(tmp_path, "jsonl", many(3))
    spec = find_environment("deepcoder")
    config = configure(spec, {"data": "file", "path": path})
    assert is_countable(config) and spec.fingerprint(config)["data_sha256"]
    monkeypatch.setattr(published, "LARGEST_COUNTED", 10)
    assert not is_countable(config) and not is_countable(configure(spec, {"data": "hub"}))
    assert path in spec.needs(config)[0].what
    with pytest.raises(BadEnvironment, match=r"No such file.*task\.env\.path=FILE"):
        spec.fingerprint(configure(spec, {"data": "file", "path": "/nowhere.jsonl"}))
    (need,) = spec.needs(configure(spec, {"data": "hub"}))
    assert "DeepCoder-Preview" in need.what


def test_a_row_without_tests_stops_the_run_with_its_number(tmp_path):
    path = written(tmp_path, "jsonl", [row | {"tests": "[]"} for row in many(12)])
    with pytest.raises(BadEnvironment, match=r"has no tests \| .*problems.jsonl: row \d+ \|"):
        make_environment("deepcoder", {"data": "file", "path": path}, "train", "chat").reset(0)


def test_rows_of_the_hub(monkeypatch):
    """The parts are joined, and only the columns that are used are kept."""
    datasets = pytest.importorskip("datasets")
    content = [row | {"other": "x", "metadata": _column(row.get("metadata"))} for row in many(60)]
    parts = {"one": content[:30], "two": content[30:]}
    asked = []

    def load_dataset(name, part, split, revision):
        asked.append((name, part, split, revision))
        return datasets.Dataset.from_list(parts[part])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    published._hub_rows.cache_clear()
    options = {"data": "hub", "dataset": "a/b", "subsets": "one,two", "revision": "r"}
    environment = make_environment("deepcoder", options, "train", "chat")
    environment.reset(3)
    _, reward, _, _ = environment.step(environment.demonstrate(random.Random(0), "template"))
    assert reward == 1.0 and asked == [("a/b", part, "train", "r") for part in parts]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: (_ for _ in ()).throw(OSError("no network")))
    published._hub_rows.cache_clear()
    published._pool.cache_clear()
    with pytest.raises(BadEnvironment, match=r"no network.*HF_HOME"):
        make_environment("deepcoder", options | {"revision": "s"}, "train", "chat").reset(0)
