"""Evaluation on fixed instances, its trajectories as text, and `plat eval` of a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from plat.trainer.api import State
from plat_rl.embedded.base_model.load import empty_model
from plat_rl.embedded.batch import Batch
from plat_rl.embedded.rollout import Episodes, Rewrite, Sampling, rollout
from plat_rl.embedded.scoring import set_up
from plat_rl.embedded.transformer.model import Weights, unpack
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.loop.randomness import EVALUATION, FixedInstances, chosen_instances
from plat_rl.loop.trajectory_table import evaluation_metrics, instance_results
from plat_rl.run_config import RunConfig


def evaluate(
    weights: Weights, tokenizer: Tokenizer, config: RunConfig, instances: FixedInstances, rewrite: Rewrite | None = None
) -> tuple[dict[str, float], Batch]:
    """Play each instance once at `eval.temperature`; return the metrics (`evaluation_metrics`) and the trajectories.

    Random numbers are a function of `eval.seed`, the split and the instance's index. So two evaluations differ by the
    policy only, and the first 128 of 256 instances have the results of 128 instances. `rewrite` may change responses.
    """
    count = len(instances)
    task, temperature = config.task, config.eval.temperature
    sampling = Sampling(task.turns, task.response_tokens, temperature, config.train.context, task.token_cost)
    key = (EVALUATION, config.eval.seed, instances.split)
    with instances.lease() as environments:
        episodes = Episodes(environments, instances.seeds, range(count), np.arange(count), instances.concurrent)
        batch = rollout(weights, tokenizer, episodes, sampling, key, rewrite)
    return evaluation_metrics(batch), batch


def evaluate_checkpoint(
    config: RunConfig, state: State, cache: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return split, instances (their number), the metrics by name, and results of a checkpoint's policy (`plat eval`).

    results    per instance, lists of: success (0 or 1), return, turns, moves
    cache      ignored
    overrides  split (validation or heldout) and instances (their number). Raises SpecError for others
    """
    instances = chosen_instances(config, overrides)
    set_up(config)
    shape, tokenizer = empty_model(config)
    weights = unpack(shape, state.tensors["actor.parameters"].to(config.device))
    metrics, batch = evaluate(weights, tokenizer, config, instances)
    return {"split": instances.split, "instances": len(instances), **metrics, "results": instance_results(batch)}


def transcripts(batch: Batch, tokenizer: Tokenizer, seeds: Sequence[int], count: int) -> list[dict[str, Any]]:
    """Return the first `count` trajectories, JSON-able.

    seed      of the instance
    success   0 or 1
    turns     [observation, response, reward] of each turn. In `full` context the observation is what is new in the
              prompt after the previous prompt and response
    """
    rows: list[list[int]] = [[] for _ in range(min(count, batch.trajectories))]
    for row in np.flatnonzero(batch.trajectory_of_row < count):
        rows[batch.trajectory_of_row[row]].append(int(row))
    return [
        {"seed": int(seed), "success": int(batch.success[number]), "turns": _turns(batch, tokenizer, own)}
        for number, (seed, own) in enumerate(zip(seeds, rows, strict=False))
    ]


def _turns(batch: Batch, tokenizer: Tokenizer, rows: Sequence[int]) -> list[list[Any]]:
    turns, before = [], ()
    for row in rows:
        prompt = batch.prompts[batch.prompt_of_row[row]]
        response = batch.responses[row, : batch.response_length[row]].tolist()
        said = response[:-1] if response[-1] == tokenizer.eos else response
        seen = len(before) if before and prompt[: len(before)] == before else 0
        observation = tokenizer.decode(list(prompt[seen:]))
        turns.append([observation, tokenizer.decode(said), round(float(batch.rewards[row]), 6)])
        before = (*prompt, *said, tokenizer.eos)
    return turns
