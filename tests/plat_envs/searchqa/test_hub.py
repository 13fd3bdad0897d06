"""HotpotQA of the hub: its own configuration, and its own part for validation."""

from __future__ import annotations

import pytest

from plat_envs.api import make_environment
from plat_envs.data import rows_of
from plat_envs.environment_errors import BadEnvironment
from plat_envs.searchqa import questions


@pytest.fixture
def asked(monkeypatch):
    """The calls of `load_dataset`, which gives 40 questions of the part that is asked for."""
    import datasets

    calls = []

    def load(dataset, name=None, split=None, revision=None):
        calls.append((dataset, name, split, revision))
        if dataset == "somebody/broken":
            raise ValueError(f"Unknown split {split!r}")
        return datasets.Dataset.from_list([{"question": f"{split} {n}?", "answer": f"{n}"} for n in range(40)])

    monkeypatch.setattr(datasets, "load_dataset", load)
    for cached in (rows_of, questions._pool):
        cached.cache_clear()
    yield calls
    for cached in (rows_of, questions._pool):
        cached.cache_clear()


def problems(split, **options):
    hub = {"data": "hub", "server": "http://127.0.0.1:9", **options}
    environment = make_environment("searchqa", hub, split, "chat")
    return {environment.reset(seed) and environment.problem for seed in range(40)}


def test_each_split_comes_from_its_part_of_the_dataset(asked):
    drawn = {split: problems(split) for split in ("train", "base", "validation", "heldout")}
    assert drawn["train"] == drawn["base"] == {f"train {n}?" for n in range(40)}
    assert drawn["validation"] | drawn["heldout"] == {f"validation {n}?" for n in range(40)}
    assert not drawn["validation"] & drawn["heldout"] and len(drawn["validation"]) > len(drawn["heldout"]) > 0
    expected = [("hotpotqa/hotpot_qa", "distractor", part, None) for part in ("train", "validation")]
    assert asked == expected, "each part is loaded once"


def test_a_shared_pool_validates_on_training_questions(asked):
    assert problems("validation", shared_pool=True) == problems("train", shared_pool=True)


def test_another_dataset_has_no_configuration(asked):
    problems("train", dataset="somebody/questions", revision="abc")
    assert asked == [("somebody/questions", None, "train", "abc")]


def test_a_dataset_without_validation_is_named(asked):
    with pytest.raises(BadEnvironment, match="Unknown split") as caught:
        problems("validation", dataset="somebody/broken")
    assert caught.value.where == "hub:somebody/broken"
