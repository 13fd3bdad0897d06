"""Real data from files, in every format; from the hub only that failing is explained."""

from __future__ import annotations

import json
import os
import random
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest

from plat_envs.api import configure, find_environment, make_environment
from plat_envs.data import fingerprint, read_rows
from plat_envs.environment_errors import BadEnvironment
from plat_envs.questions.countdown import subtracted


def write(path, rows):
    if path.suffix == ".parquet":
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), encoding="utf-8")
    else:
        path.write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    return str(path)


every_format = pytest.mark.parametrize("suffix", [".parquet", ".json", ".jsonl"])


def countdown_rows(count=80):
    rng = random.Random(0)
    rows = [{"nums": [rng.randint(1, 60) for _ in range(rng.choice((3, 4)))], "target": 0} for _ in range(count)]
    for row in rows:
        row["target"] = sum(row["nums"][:-1]) - row["nums"][-1]
    return [*rows, {"nums": [2, 3, 4], "target": 24}]  # the last needs a product


def mathematics_rows(families=40):
    return [
        {
            "query": f"How much is {n} and {n}? (version {version})",
            "response": f"Twice {n} is {2 * n}.\nThe answer is: {2 * n}",
            "original_question": f"question {n}",
            "type": "GSM_Rephrased",
        }
        for n in range(families)
        for version in range(3)
    ]


def all_instances(environment, name, count=300):
    instances = []
    for seed in range(count):
        environment.reset(seed)
        instances.append(getattr(environment, name))
    return instances


@every_format
def test_countdown_rows(tmp_path, suffix):
    path = write(tmp_path / f"rows{suffix}", countdown_rows())
    targets = {}
    for split in ("train", "validation", "heldout"):
        environment = make_environment("countdown", {"data": "file", "path": path}, split, "chat")
        targets[split] = {(*sorted(numbers), "to") for numbers in all_instances(environment, "numbers")}
        for seed in range(30):
            environment.reset(seed)
            assert subtracted(environment.numbers, environment.target) is not None
            example = environment.demonstrate(random.Random(0), "several_facts")
            assert environment.reasoning_level(example.split(" </think>")[0]) == "several_facts"
            assert environment.step(example)[1] == 1.0
    assert not targets["train"] & targets["validation"] and not targets["train"] & targets["heldout"]
    assert sum(map(len, targets.values())) == 80  # the row that needs a product is left out


@every_format
def test_mathematics_rows(tmp_path, suffix):
    path = write(tmp_path / f"rows{suffix}", mathematics_rows())
    families = {}
    for split in ("train", "validation", "heldout"):
        environment = make_environment("metamathqa", {"data": "file", "path": path}, split, "chat")
        families[split] = set(all_instances(environment, "problem"))
        assert environment.reset(0).count("How much is") == 1
        assert environment.step(environment.demonstrate(random.Random(0), "several_facts"))[3]["success"]
    assert not families["train"] & families["validation"] and not families["train"] & families["heldout"]
    assert sum(map(len, families.values())) == 40  # rephrasings of a question stay together


def test_seeds_walk_through_the_file(tmp_path):
    path = write(tmp_path / "rows.json", mathematics_rows())
    environment = make_environment("metamathqa", {"data": "file", "path": path}, "train", "chat")
    order = [problem.question for problem in all_instances(environment, "row", 500)]
    count = len(set(order))
    assert order[:count] == order[count : 2 * count] and len(set(order[:count])) == count


def test_a_shared_pool_of_real_data(tmp_path):
    path = write(tmp_path / "rows.json", mathematics_rows())
    options = {"data": "file", "path": path, "shared_pool": True}
    pools = [
        {p.question for p in all_instances(make_environment("metamathqa", options, split, "chat"), "row")}
        for split in ("train", "validation")
    ]
    assert pools[0] == pools[1]


def test_an_answer_column_is_taken(tmp_path):
    rows = [{**row, "answer": "7", "response": "it is so"} for row in mathematics_rows()]
    environment = make_environment(
        "metamathqa", {"data": "file", "path": write(tmp_path / "rows.json", rows)}, "train", "chat"
    )
    environment.reset(0)
    assert environment.row.answer == "7" and environment.row.solution == "it is so"


def test_small_countdown_rows_have_a_compact_rendering(tmp_path):
    rows = [{"numbers": [a, b, c], "target": a + b + c} for a in range(1, 9) for b in range(1, 9) for c in (1, 2)]
    environment = make_environment("countdown", {"data": "file", "path": write(tmp_path / "rows.json", rows)})
    assert len(environment.reset(0).split()) == 8


def test_what_has_no_compact_rendering_says_so(tmp_path):
    path = write(tmp_path / "rows.json", countdown_rows())
    with pytest.raises(BadEnvironment, match="rendering: chat"):
        make_environment("countdown", {"data": "file", "path": path})
    with pytest.raises(BadEnvironment, match="rendering: chat"):
        make_environment("metamathqa", {"data": "file", "path": path})


@pytest.mark.parametrize("task", ["countdown", "metamathqa"])
def test_data_that_cannot_be_used(tmp_path, task):
    def use(path):
        make_environment(task, {"data": "file", "path": str(path)}, "train", "chat").reset(0)

    with pytest.raises(BadEnvironment, match="path is empty"):
        make_environment(task, {"data": "file"})
    with pytest.raises(BadEnvironment, match="one of: generated, file, hub"):
        make_environment(task, {"data": "files"})
    with pytest.raises(BadEnvironment, match="cannot read"):
        use(tmp_path / "missing.json")
    for name, content in (("broken.json", '[{"nums": '), ("broken.parquet", "no parquet"), ("broken.jsonl", "{}\n{")):
        (tmp_path / name).write_text(content)
        with pytest.raises(BadEnvironment, match="cannot read"):
            use(tmp_path / name)
    (tmp_path / "list.json").write_text("[1, 2]")
    with pytest.raises(BadEnvironment, match="list of objects"):
        use(tmp_path / "list.json")
    (tmp_path / "other.json").write_text('[{"question": 1}]')
    with pytest.raises(BadEnvironment, match="columns"):
        use(tmp_path / "other.json")
    (tmp_path / "empty.json").write_text("[]")
    with pytest.raises(BadEnvironment, match="no usable row"):
        use(tmp_path / "empty.json")


@pytest.mark.parametrize(
    ("text", "mark"), [("a\u2028b", ""), ("a\x85b", ""), ("käse", "\ufeff"), ("a\u2029b\x1c", "\ufeff")]
)
def test_only_a_line_feed_ends_a_line(tmp_path, text, mark):
    """Other signs that end lines may be in a text, and a mark of the byte order before all."""
    rows = [{"question": text}, {"question": "two"}]
    lines = "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    for name, content in (("rows.jsonl", lines), ("rows.json", json.dumps(rows))):
        (tmp_path / name).write_bytes((mark + content).encode())
        assert read_rows(str(tmp_path / name)) == rows


@pytest.mark.parametrize("content", ["[" * 200_000, '{"a": ' * 200_000, '{"a": ' + "[" * 200_000])
def test_deep_data_are_refused(tmp_path, content):
    (tmp_path / "deep.jsonl").write_text(content)
    with pytest.raises(BadEnvironment, match="cannot read the data") as caught:
        read_rows(str(tmp_path / "deep.jsonl"))
    assert caught.value.where == str(tmp_path / "deep.jsonl") and caught.value.fix


@pytest.mark.parametrize("task", ["countdown", "metamathqa"])
def test_the_hub_out_of_reach_is_explained(task, monkeypatch):
    import datasets

    def unreachable(*arguments, **keywords):
        raise ConnectionError("no network")

    monkeypatch.setattr(datasets, "load_dataset", unreachable)
    environment_data = {"data": "hub", "dataset": "nobody/nothing"}
    with pytest.raises(BadEnvironment, match=r"no network.*data: file"):
        make_environment(task, environment_data, "train", "chat").reset(0)


def test_the_hub_gives_rows(monkeypatch):
    import datasets

    monkeypatch.setattr(datasets, "load_dataset", lambda *a, **k: datasets.Dataset.from_list(mathematics_rows()))
    environment = make_environment("metamathqa", {"data": "hub", "dataset": "somebody/something"}, "train", "chat")
    assert "How much is" in environment.reset(0)


def test_the_content_of_a_file_is_part_of_its_identity(tmp_path):
    spec = find_environment("countdown")
    path = write(tmp_path / "rows.json", countdown_rows())
    config = configure(spec, {"data": "file", "path": path})
    before = spec.fingerprint(config)
    assert before == spec.fingerprint(config) and len(before["data_sha256"]) == 64
    write(tmp_path / "rows.json", countdown_rows(90))
    assert spec.fingerprint(config) != before
    with pytest.raises(BadEnvironment, match="cannot read"):
        spec.fingerprint(configure(spec, {"data": "file", "path": str(tmp_path / "gone.json")}))


@every_format
def test_a_pipe_in_place_of_the_data_is_not_waited_for(tmp_path, suffix):
    path = tmp_path / f"rows{suffix}"
    os.mkfifo(path)
    for read in (lambda: read_rows(str(path)), lambda: fingerprint(SimpleNamespace(data="file", path=str(path)))):
        with pytest.raises(BadEnvironment, match="not a regular file") as caught:
            read()
        assert caught.value.where == str(path)
