"""Evaluation on fixed instances by verl's rollout engine, and `plat eval` of a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from plat.errors import CheckpointError
from plat.trainer.api import State
from plat.trainer.loop.instances import FixedInstances, chosen_instances
from plat.trainer.loop.randomness import EVALUATION
from plat.trainer.loop.trajectories import evaluation_metrics, instance_results
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.extra import require
from plat.trainer.verl.model_files import model_files
from plat.trainer.verl.models import workers
from plat.trainer.verl.play import Play, Played
from plat.trainer.verl.running import running_trainer


def evaluate(trainer: Any, config: VerlRunConfig, instances: FixedInstances) -> tuple[dict[str, float], Played]:
    """One trajectory per instance at `eval.temperature`: their metrics (`evaluation_metrics`), and the trajectories.

    trainer   a `plat.trainer.verl.trainer.Trainer` whose rollout has the policy's weights

    Random numbers are a function of `eval.seed`, the split and the instance's number.
    """
    key = (EVALUATION, config.eval.seed, instances.split)
    play = Play(instances.split, instances.seeds, 1, key, config.eval.temperature, config.task.turns)
    batch = trainer.play(play, trainer.global_steps, "val")
    return evaluation_metrics(batch), batch


def evaluate_checkpoint(
    config: VerlRunConfig, state: State, cache: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """`plat eval`: metrics and per-instance results of a checkpoint's policy; see `chosen_instances` for overrides.

    Starts verl's actor and rollout as the run had them, with as many processes as wrote the checkpoint.
    """
    require()
    instances = chosen_instances(config, overrides)
    if state.files is None:
        raise CheckpointError("a checkpoint of verl has files, and this one has none")
    os.environ.setdefault("RAY_LOG_TO_DRIVER", "0")  # read when Ray is imported: what its workers say is not a result
    config = _policy_alone(config)
    with running_trainer(config, model_files(config, cache)) as trainer:
        trainer.load(state.files, 0)
        metrics, batch = evaluate(trainer, config, instances)
    return {"split": instances.split, "instances": len(instances), **metrics, "results": instance_results(batch)}


def _policy_alone(config: VerlRunConfig) -> VerlRunConfig:
    """The config without what only training needs, a critic and a reference policy, on as many processes as before."""
    algorithm = replace(config.algorithm, advantage="grpo", kl_coef=0.0)
    return replace(config, algorithm=algorithm, verl=replace(config.verl, workers=workers(config)))
