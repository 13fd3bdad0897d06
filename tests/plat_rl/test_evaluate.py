"""`plat eval`: a checkpoint on fixed instances gives what training logged."""

from __future__ import annotations

import json
import math

import pytest

from plat.errors import SpecError
from plat_rl.embedded.evaluate import evaluate_checkpoint
from plat_rl.embedded.train import train


def test_evaluating_a_checkpoint_gives_what_training_logged(compose, memory_io, cache):
    config = compose("task=frozenlake", "algorithm=grpo", "eval.instances=10", "eval.heldout=12")
    io = memory_io()
    train(config, io)
    peak = io.load_peak()
    heldout = evaluate_checkpoint(config, peak[1], cache)
    assert heldout["split"] == "heldout" and heldout["instances"] == 12
    assert heldout["success"] == io.metrics["heldout/success", 2]
    assert heldout["results"]["success"] == io.tables["heldout_peak", 2]["success"]
    validation = evaluate_checkpoint(config, peak[1], cache, {"split": "validation"})
    assert validation["success"] == io.metrics["val/success", peak[0]]
    json.dumps(heldout)


@pytest.mark.parametrize("task", ["frozenlake", "sokoban"])
def test_fewer_instances_are_the_beginning_of_more(compose, memory_io, cache, task):
    config = compose(f"task={task}", "train.iterations=0")
    io = memory_io()
    train(config, io)
    state = io.load_peak()[1]
    many = evaluate_checkpoint(config, state, cache, {"instances": 64})["results"]
    assert len(set(many["return"])) > 1 and len(set(many["turns"])) > 1
    for count in (1, 5, 32):
        few = evaluate_checkpoint(config, state, cache, {"instances": count})["results"]
        assert few == {name: values[:count] for name, values in many.items()}


@pytest.mark.parametrize(
    ("options", "says"),
    [({"splitt": "heldout"}, "splitt"), ({"split": "test"}, "'test'"), ({"instances": 0}, "0 instances"),
     ({"instances": "many"}, "'many' instances")],
)  # fmt: skip
def test_wrong_options_of_an_evaluation(compose, memory_io, cache, options, says):
    io = memory_io()
    config = compose("train.iterations=0")
    train(config, io)
    with pytest.raises(SpecError, match=says):
        evaluate_checkpoint(config, io.load_peak()[1], cache, options)


def test_greedy_evaluation(compose, memory_io):
    io = memory_io()
    assert train(compose("task=frozenlake", "eval.temperature=0", "train.iterations=1"), io).kind == "finished"
    assert math.isfinite(io.metrics["val/success", 1])
