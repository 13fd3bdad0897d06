"""Evaluation on fixed instances by verl's rollout engine, and `plat eval` of a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from plat.errors import CheckpointError
from plat.extras import require_extra
from plat.trainer.api import State
from plat_rl.loop.randomness import EVALUATION, FixedInstances, chosen_instances
from plat_rl.loop.trajectory_table import evaluation_metrics, instance_results
from plat_rl.verl.machines.running import running_trainer
from plat_rl.verl.rollouts.play import Play, Played
from plat_rl.verl.settings.models import model_files, workers
from plat_rl.verl.settings.verl_config import VerlRunConfig


def evaluate(trainer: Any, config: VerlRunConfig, instances: FixedInstances) -> tuple[dict[str, float], Played]:
    """Play each instance once at `eval.temperature`; return metrics (`evaluation_metrics`) and trajectories.

    trainer   a `plat_rl.verl.update.trainer.Trainer` whose rollout has the policy's weights

    Random numbers are a function of `eval.seed`, the split and the instance's number.
    """
    key = (EVALUATION, config.eval.seed, instances.split)
    play = Play(instances.split, instances.seeds, 1, key, config.eval.temperature, config.task.turns)
    batch = trainer.play(play, trainer.global_steps, "val")
    return evaluation_metrics(batch), batch


def evaluate_checkpoint(
    config: VerlRunConfig, state: State, cache: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return split, instances (their number), the metrics by name, and results of a checkpoint's policy (`plat eval`).

    `overrides` are those of `chosen_instances`; results as in the embedded trainer. Starts verl's actor and rollout
    with as many processes as wrote the checkpoint. Raises CheckpointError if `state` has no files.
    """
    require_extra("verl", "the trainer verl", "trainer")
    instances = chosen_instances(config, overrides)
    if state.files is None:
        raise CheckpointError("a checkpoint of verl has files, and this one has none")
    os.environ.setdefault("RAY_LOG_TO_DRIVER", "0")  # read when Ray is imported: keep workers' output from results
    # Without critic and reference policy, with the same number of processes.
    algorithm = replace(config.algorithm, advantage="grpo", kl_coef=0.0)
    config = replace(config, algorithm=algorithm, verl=replace(config.verl, workers=workers(config)))
    with running_trainer(config, model_files(config, cache)) as trainer:
        trainer.load(state.files, 0)
        metrics, batch = evaluate(trainer, config, instances)
    return {"split": instances.split, "instances": len(instances), **metrics, "results": instance_results(batch)}
