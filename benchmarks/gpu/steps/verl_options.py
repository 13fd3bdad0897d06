"""The options of the runs with verl: the random model of 494 M on Sokoban, the rollout by transformers."""

from __future__ import annotations

from random_models import folder_of

from steps.step import Step

# verl starts 8 processes for agents and compiles a function by default: both cost more here than they save.
FEW = (
    'verl.overrides=["actor_rollout_ref.rollout.agent.num_workers=1",'
    '"actor_rollout_ref.actor.use_torch_compile=False","actor_rollout_ref.ref.use_torch_compile=False"]'
)
MEMORY = 60  # GiB of the card: two models of this size with their optimisers, and logits of 151,936 words


def options(step: Step, algorithm: str, iterations: int, mi_every: int) -> list[str]:
    """Return the overrides of a run of verl on the step's device."""
    prompts, group, tokens = (4, 2, 16) if step.tiny else (8, 16, 80)
    return [
        *("trainer=verl", "scale=paper", "task=sokoban", f"algorithm={algorithm}", "verl.workers=1", "verl.rollout=hf"),
        *(f"model.path={folder_of(step.folder / 'models', '494 M')}", f"device={step.device}", FEW),
        f"dtype={'float32' if step.device == 'cpu' else 'bfloat16'}",
        *("task.turns=3", f"task.response_tokens={tokens}", "task.env.max_solution=6"),
        *(f"train.prompts={prompts}", f"train.group_size={group}", "train.mini_batches=1"),
        *(f"train.iterations={iterations}", "train.checkpoint_every=2", "verl.tokens_per_gpu=8192"),
        *("early_stop.variance_window=0", "early_stop.success_window=0", "early_stop.empty_window=0"),
        *("eval.every=1000000", "eval.instances=2", "eval.heldout=0", f"mi.every={mi_every}", "mi.probe=0"),
    ]
