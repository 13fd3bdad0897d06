"""A process with verl's own training worker: computes loss and gradients of batches that a test has written.

    python parity_worker.py FOLDER

FOLDER/cases.pt holds a list of dicts:

    role, config, model     actor | critic | score; JSON of a VerlRunConfig; a checkpoint's folder
    rows                    name -> list of tensors, a row each; of `score`: pairs, a list of (prompt, reasoning)
    head                    of the critic: weight and bias
    scale, sequences        of the loss; the trajectories of the mini-batch
    tokens, temperature     of a micro-batch, at most; of the sampling

FOLDER/answers.pt gets a list of dicts: `metrics` and `gradients` by parameter, or `scores`. Nothing is stepped.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from plat.trainer.verl.cpu import ENVIRONMENT

os.environ.update(
    ENVIRONMENT
    | {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
)


def worker_of(case: dict[str, Any]) -> Any:
    """verl's TrainingWorker, made as verl's trainer makes it."""
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.config import TrainingWorkerConfig

    from plat.trainer.verl.loss import CriticWorker, scaled_policy_loss, scaled_value_loss
    from plat.trainer.verl.overrides import compose, run_config

    composed = compose(run_config(case["config"]), case["model"])
    is_actor = case["role"] != "critic"
    part = omega_conf_to_dataclass(composed.actor_rollout_ref.actor if is_actor else composed.critic)
    model = omega_conf_to_dataclass(composed.actor_rollout_ref.model) if is_actor else part.model
    part.engine.use_dynamic_bsz = True
    part.engine.max_token_len_per_gpu = part.engine.infer_max_token_len_per_gpu = case["tokens"]
    worker = CriticWorker(
        TrainingWorkerConfig(
            model_type="language_model" if is_actor else "value_model",
            model_config=model,
            engine_config=part.engine,
            optimizer_config=part.optim,
            checkpoint_config=part.checkpoint,
        )
    )
    worker.reset()
    worker.set_loss_fn(partial(scaled_policy_loss if is_actor else scaled_value_loss, config=part))
    return worker


def answer(case: dict[str, Any]) -> dict[str, Any]:
    """Loss, metrics and gradients of one mini-batch, through the worker's real `train_mini_batch`."""
    import torch
    from verl.utils import tensordict_utils as tu

    from plat.trainer.verl.loss import SCALE

    worker = worker_of(case)
    if case["role"] == "score":
        from plat.trainer.verl.cross_score import log_likelihoods

        workers = SimpleNamespace(compute_log_prob=worker.infer_batch)
        return {"scores": log_likelihoods(workers, case["pairs"], case["temperature"], processes=1)}
    if case["head"] is not None:
        with torch.no_grad():
            for parameter, value in zip(worker.engine.module.score.parameters(), case["head"], strict=True):
                parameter.copy_(
                    torch.distributed.tensor.distribute_tensor(value, parameter.device_mesh, parameter.placements)
                )
    gradients: dict[str, Any] = {}

    def step() -> float:
        for name, parameter in worker.engine.module.named_parameters():
            if parameter.grad is not None:
                gradients[name] = parameter.grad.full_tensor().clone()
        return 0.0

    worker.engine.optimizer_step = step
    rows = {name: torch.nested.as_nested_tensor(values, layout=torch.jagged) for name, values in case["rows"].items()}
    data = tu.get_tensordict(
        rows,
        {
            "calculate_entropy": True, "distillation_use_topk": False, "distillation_only": False,
            "global_batch_size": case["sequences"], "mini_batch_size": len(case["rows"]["input_ids"]), "epochs": 1,
            "seed": 0, "dataloader_kwargs": {"shuffle": False}, "temperature": case["temperature"],
            SCALE: case["scale"],
        },
    )  # fmt: skip
    output = worker.train_mini_batch(data)
    metrics = tu.get(output, "metrics")
    return {"metrics": metrics, "gradients": gradients}


def main(folder: Path) -> None:
    import torch

    cases = torch.load(folder / "cases.pt", weights_only=False)
    torch.save([answer(case) for case in cases], folder / "answers.pt")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
