"""The held-out success of the peak checkpoint and of the final policy."""

from __future__ import annotations

import pytest

from plat.errors import RunError
from plat_rl.embedded.evaluate import evaluate, evaluate_checkpoint
from plat_rl.embedded.train import train


class DamagedPeak:
    """Mixed into a RunIO whose newest peak checkpoint does not load."""

    def __init__(self, io):
        self.io = io

    def __getattr__(self, name):
        return getattr(self.io, name)

    def load_peak(self):
        newest = max(step for step, (_, peak) in self.io.checkpoints.items() if peak)
        left = {step: kept for step, kept in self.io.checkpoints.items() if step != newest}
        peaks = [step for step, (_, peak) in left.items() if peak]
        return (max(peaks), left[max(peaks)][0]) if peaks else None


def test_an_older_checkpoint_never_passes_for_the_peak(compose, memory_io, monkeypatch):
    """Success .1, .5, .3: with the checkpoint of step 1 damaged, that of step 0 must not be called the peak."""
    successes = iter([0.1, 0.5, 0.3])

    def rigged(weights, tokenizer, config, instances):
        metrics, batch = evaluate(weights, tokenizer, config, instances)
        return metrics | ({"success": next(successes)} if instances.split == "validation" else {}), batch

    monkeypatch.setattr("plat_rl.embedded.train.evaluate", rigged)
    with pytest.raises(RunError, match=r"peak checkpoint of step 1 .* of step 0") as error:
        train(compose("eval.every=1"), DamagedPeak(memory_io()))
    assert error.value.fix
    successes = iter([0.5, 0.1, 0.3])
    with pytest.raises(RunError, match=r"peak checkpoint of step 0 .*none is left"):
        train(compose("eval.every=1"), DamagedPeak(memory_io()))


def test_the_final_policy_is_held_out_beside_the_peak(compose, memory_io, cache, monkeypatch):
    """A run whose first evaluation was its best one: peak is the base model, final the trained one."""

    def rigged(weights, tokenizer, config, instances):
        metrics, batch = evaluate(weights, tokenizer, config, instances)
        return metrics | ({"success": 0.5} if instances.split == "validation" else {}), batch

    monkeypatch.setattr("plat_rl.embedded.train.evaluate", rigged)
    io, config = memory_io(), compose("eval.heldout=32", "train.lr=0.05", "algorithm=grpo", "train.iterations=3")
    assert train(config, io).summary["peak_step"] == 0
    base, peak, final = (io.tables[f"heldout_{role}", step] for role, step in (("base", 0), ("peak", 3), ("final", 3)))
    assert base["success"] == peak["success"] and base["turns"] == peak["turns"]
    again = evaluate_checkpoint(config, io.checkpoints[3][0], cache)["results"]
    assert {name: final[name] for name in again} == again
    assert final["return"] != peak["return"]
