"""A process with verl's own training worker: computes loss and gradients of batches that a test has written.

For each line of standard input, the name of a folder, it reads FOLDER/cases.pt, writes FOLDER/answers.pt and prints
`answered FOLDER`. The cases are a list of dicts:

    role, config, model     actor | critic | norms | score; JSON of a VerlRunConfig; a checkpoint's folder
    rows                    name -> list of tensors, or of dicts for `multi_modal_inputs`, one for each row; of `score`:
                            pairs, a list of (prompt, reasoning)
    head                    of the critic: weight and bias
    scale, sequences        of the loss; the trajectories of the mini-batch
    tokens, temperature     of a micro-batch, at most; of the sampling
    parts                   of `norms`: (rows, trajectories, term) of each norm that is asked for

The answers are a list of dicts: `metrics` and `gradients` by parameter, `norms` and whether anything `moved`, or
`scores`. Nothing is stepped.
"""

from __future__ import annotations

import os
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from plat_rl.verl.cpu import ENVIRONMENT

os.environ.update(
    ENVIRONMENT
    | {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0", "OMP_NUM_THREADS": "1"}
)


def worker_of(case: dict[str, Any]) -> Any:
    """verl's TrainingWorker, made as verl's trainer makes it."""
    from verl.utils.config import omega_conf_to_dataclass
    from verl.workers.config import TrainingWorkerConfig

    from plat_rl.verl.settings.composition import compose, run_config
    from plat_rl.verl.update.loss import CriticWorker, scaled_policy_loss, scaled_value_loss

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
    """What a case asks for, of a worker of its own."""
    worker = worker_of(case)
    if case["role"] == "score":
        from plat_rl.verl.rollouts.verl_cross_score import log_likelihoods
        from plat_rl.verl.vision.processor import load_processor

        workers, vision = SimpleNamespace(compute_log_prob=worker.infer_batch), load_processor(case["model"])
        return {"scores": log_likelihoods(workers, case["pairs"], case["temperature"], 1, vision)}
    if case["role"] == "norms":
        return norms(worker, case)
    return update(worker, case)


def update(worker: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Metrics and gradients of one mini-batch, through the worker's real `train_mini_batch`."""
    import torch
    from verl.utils import tensordict_utils as tu

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
    output = worker.train_mini_batch(batch_of(case, case["rows"], case["sequences"], ""))
    return {"metrics": tu.get(output, "metrics"), "gradients": gradients}


def norms(worker: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Norms of gradients of parts of a batch, after a real step, and whether measuring them changed anything."""
    import torch
    from verl.utils import tensordict_utils as tu

    from plat_rl.verl.update.loss import gradient_norm

    def everything() -> list[torch.Tensor]:
        optimiser = worker.engine.optimizer.state_dict()["state"]
        kept = [value for values in optimiser.values() for value in values.values()]
        whole = [value.full_tensor() if hasattr(value, "full_tensor") else value for value in kept]
        weights = [parameter.full_tensor() for parameter in worker.engine.module.parameters()]
        rate = torch.tensor(worker.engine.lr_scheduler.state_dict()["last_epoch"])
        return [value.detach().clone() for value in (*weights, *whole, rate, torch.get_rng_state())]

    if case["steps"]:
        worker.train_mini_batch(batch_of(case, case["rows"], case["sequences"], ""))
    before = everything()
    measured = []
    for places, trajectories, term in case["parts"]:
        rows = {name: [values[place] for place in places] for name, values in case["rows"].items()}
        output = gradient_norm(worker, batch_of(case, rows, trajectories, term))
        measured.append(float(tu.get(output, "metrics")["grad_norm"]))
    moved = [not torch.equal(old, new) for old, new in zip(before, everything(), strict=True)]
    left = any(parameter.grad is not None for parameter in worker.engine.module.parameters())
    return {"norms": measured, "moved": any(moved) or left, "compared": len(moved)}


def batch_of(case: dict[str, Any], rows: dict[str, list[Any]], trajectories: int, term: str) -> Any:
    """Rows as verl's trainer sends them to a worker."""
    import torch
    from verl.utils import tensordict_utils as tu

    from plat_rl.verl.update.loss import SCALE, TERM

    nested: dict[str, Any] = {
        name: torch.nested.as_nested_tensor(values, layout=torch.jagged) if torch.is_tensor(values[0]) else values
        for name, values in rows.items()
    }
    information = {
        "calculate_entropy": True, "distillation_use_topk": False, "distillation_only": False,
        "global_batch_size": trajectories, "mini_batch_size": len(rows["input_ids"]), "epochs": 1,
        "seed": 0, "dataloader_kwargs": {"shuffle": False}, "temperature": case["temperature"],
        SCALE: case["scale"], TERM: term,
    }  # fmt: skip
    return tu.get_tensordict(nested, information)


def main() -> None:
    import torch

    for line in sys.stdin:
        folder = Path(line.strip())
        cases = torch.load(folder / "cases.pt", weights_only=False)
        torch.save([answer(case) for case in cases], folder / "answers.pt")
        print(f"answered {folder}", flush=True)


if __name__ == "__main__":
    main()
