"""A whole run with pictures on two CPU cores, started as users start it: real Ray, FSDP workers, rollout servers."""

from __future__ import annotations

from pathlib import Path

import pytest
from verl_processes import events, history, run

pytestmark = pytest.mark.verl

# The cost of tokens makes returns differ, so that there is something to learn in every iteration.
SEEING = ("model=qwen2.5-vl-3b", "train.pictures=true", "task.token_cost=0.01")
VARIANTS = {
    "turns, each a sequence, ppo on two workers": (
        "algorithm=ppo", "train.context=current", "filter=top_p", "verl.workers=2", "algorithm.kl_coef=0.01",
    ),
    "whole episodes, grpo": ("algorithm=grpo", "train.context=full", "filter=none"),
}  # fmt: skip


@pytest.mark.parametrize("name", VARIANTS)
def test_a_model_that_sees_is_trained_from_its_beginning_to_its_end(tmp_path: Path, name: str) -> None:
    result = run(tmp_path, *SEEING, *VARIANTS[name])
    assert result["outcome"] == "finished" and result["step"] == 3
    metrics = history(tmp_path)
    updated = [step for step in (1, 2, 3) if metrics[step, "filter/updates"]]
    assert updated, "an update on pictures is what this run is for"
    assert metrics[0, "val/format_valid"] > 0.5, "the base that travels with plat has learnt to act on pictures"
    gaps = {step: value for (step, metric), value in metrics.items() if metric == "mi/score_gap"}
    assert gaps, "no iteration had two reasonings to compare"
    # Rollout engine and training workers read the same pictures at the same positions.
    assert max(gaps.values()) < 1e-4
    for step in (1, 2, 3):
        assert metrics[step, "rollout/cut"] == 0
        assert ((step, "actor/grad_norm") in metrics) == (step in updated)
    for step in updated:
        assert metrics[step, "actor/grad_norm"] > 0
        assert ((step, "critic/grad_norm") in metrics) == ("ppo" in name)
    names = {metric for _, metric in metrics}
    assert {"val/success", "heldout/final_success", "probe/retrieval_acc", "mi/trajectory/over_blank"} <= names
    tables = {event["table"] for event in events(tmp_path) if "table" in event}
    assert {"val_instances", "probe", "heldout_final"} <= tables
