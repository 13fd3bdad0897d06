"""Time TRL's GRPOTrainer at the same work. TRL is imported only for the measurement: it may not be installed."""

from __future__ import annotations

import gc
import logging
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from plat.spec.expansion.experiment import build_run, config_object
from plat_rl.embedded.spec import EmbeddedTrainer
from plat_rl.environments import make_environments
from plat_rl.run_config import RunConfig
from trainers.embedded import GROUP, ONE_TURN, PROMPTS, QUIET, STEPS, TOKENS, WARM_UP, mean_of_faster_half

LOSS = {"beta": 0.0, "num_iterations": 1, "learning_rate": 1e-5, "gradient_accumulation_steps": 1}
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": 0, "seed": 0}
MACHINE = {"use_cpu": True, "bf16": False, "gradient_checkpointing": False, "dataloader_num_workers": 0}
SILENCE = {"logging_steps": 1000, "save_strategy": "no", "report_to": [], "disable_tqdm": True}
SETTINGS = LOSS | SAMPLING | MACHINE | SILENCE


def trl_steps(checkpoint: Path, scratch: Path, steps: int = STEPS) -> dict[str, float]:
    """Return the seconds of a step of TRL's GRPOTrainer on the same data, and the mean words of a response."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    from datasets import Dataset
    from transformers import AutoTokenizer, PrinterCallback, Qwen2ForCausalLM, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    config: RunConfig = config_object(build_run([*QUIET, *ONE_TURN]), EmbeddedTrainer())
    (player,) = make_environments(config, "train", 1)
    seeds = list(range(PROMPTS * (WARM_UP + steps + 1)))
    words: list[float] = []

    def reward(prompts: list[str], completions: list[str], seed: list[int], **_: Any) -> list[float]:
        rewards = []
        for text, number in zip(completions, seed, strict=True):
            player.reset(number)
            rewards.append(player.step(text)[1])
            words.append(len(text.split()))
        return rewards

    ends: list[float] = []

    class Clock(TrainerCallback):
        def on_step_end(self, *arguments: Any, **named: Any) -> None:
            ends.append(time.process_time())

    settings = GRPOConfig(
        output_dir=str(scratch / "trl"),
        per_device_train_batch_size=PROMPTS * GROUP,
        num_generations=GROUP,
        max_completion_length=TOKENS,
        max_steps=WARM_UP + steps,
        **SETTINGS,
    )
    rows = [{"prompt": player.reset(seed), "seed": seed} for seed in seeds]
    model = Qwen2ForCausalLM.from_pretrained(checkpoint)
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=reward,
        args=settings,
        train_dataset=Dataset.from_list(rows),
        processing_class=AutoTokenizer.from_pretrained(checkpoint, padding_side="left"),
        callbacks=[Clock()],
    )
    trainer.remove_callback(PrinterCallback)
    gc.collect()
    gc.freeze()
    trainer.train()
    times = np.diff(ends)[WARM_UP - 1 :].tolist()
    return {"seconds": mean_of_faster_half(times), "tokens": float(np.mean(words))}
