"""The embedded trainer on one thread: against TRL at the same work, with four updates and cross-scoring, and against
the matrix-product rate of this machine.

    python benchmarks/bench_trainer.py             everything; TRL only where it is installed
    python benchmarks/bench_trainer.py --profile   where the time of the multi-turn step goes

`make bench` installs TRL (requirements-bench.txt) into a folder that only this script looks into. Both trainers start
from the same checkpoint, play the same FrozenLake instances (8 prompts x 16 rollouts, at most 48 tokens, reward by the
same environment), and do one AdamW update a step; start-up and the first steps are not timed. The clock is the CPU time
of the process, which has one thread, so that waiting for a core does not count. Of everything timed the faster half
counts, because a busy machine slows the rest, too.

The floating-point operations a step must do are those of its matrix products, on the tokens and distinct prompts that
were really there: prompts and decoding, cross-scoring of distinct reasonings, updates forward and backward, attention
and head included; nothing for padding, normalisations, softmax, sampling or the environments. The rate they are held
against is that of 1024 x 1024 products between the steps.
"""

from __future__ import annotations

import gc
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from plat.spec.experiment import build_run, config_object
from plat.trainer.api import State
from plat.trainer.config import RunConfig
from plat.trainer.embedded import cross_score, scoring
from plat.trainer.embedded.environment import make_environments
from plat.trainer.embedded.spec import SPEC
from plat.trainer.embedded.train import _Run
from plat.trainer.embedded.transformer import hf
from plat.trainer.embedded.transformer.model import Shape, initialise
from plat.trainer.embedded.transformer.tokenizer import WordTokenizer, save_word_tokenizer

sys.path.append(str(Path(sys.prefix) / "bench"))

# One thread, and freed arrays are kept for the next ones: read when a process starts.
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "MALLOC_TRIM_THRESHOLD_": "536870912",
    "MALLOC_MMAP_THRESHOLD_": "536870912",
}

WARM_UP, STEPS = 3, 24
PROMPTS, GROUP, TOKENS = 8, 16, 48
QUIET = (
    "eval.every=1000",
    "eval.instances=1",
    "eval.heldout=1",
    "train.checkpoint_every=1000",
    "train.iterations=1000",
    "early_stop.variance_window=0",
    "early_stop.success_window=0",
    "algorithm=grpo",
)
ONE_TURN = (
    "task=frozenlake",
    "task.turns=1",
    "+task.env.max_solution=2",
    f"task.response_tokens={TOKENS}",
    "mi.every=0",
    "train.mini_batches=1",
    "train.lr=1e-5",
    "algorithm.entropy_coef=0",
)
MULTI_TURN = (
    "task=frozenlake",
    "model.shape.ffn=152",  # about the prototype's number of parameters
    "model.base.steps=400",
    "model.base.pool=4000",
    "mi.every=1",
    "mi.samples=128",
    "mi.trajectory=false",
    "train.mini_batches=4",
)


class NoIO:
    """A RunIO that keeps only the clock."""

    def __init__(self, cache: Path) -> None:
        self.cache = cache
        self.metrics: list[Mapping[str, float]] = []

    def facts(self, facts: Mapping[str, Any]) -> None: ...
    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        self.metrics.append(metrics)

    def table(self, name: str, step: int, data: Any) -> None: ...
    def save(self, step: int, state: State, *, peak: bool = False) -> None: ...
    def restore(self) -> None: ...
    def load_peak(self) -> None: ...
    def should_stop(self) -> bool:
        return False


# --- floating-point operations ----------------------------------------------------------------------------------------


class Operations:
    """Counts what must be multiplied, by watching the calls of the trainer's three consumers of compute."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.total = 0.0

    def prompts(self, lengths: Iterable[int]) -> float:
        """Keys and values of prompts; nothing needs the last layer's output there, nor the last token."""
        s = self.shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        whole = (q + 2 * kv) * s.width + q * s.width + 3 * s.width * s.ffn
        per_token = 2.0 * ((s.layers - 1) * whole + 2 * kv * s.width)
        attention = 4.0 * q * (s.layers - 1)
        return float(sum(per_token * (n - 1) + attention * (n - 1) * n / 2 for n in lengths))

    def responses(self, prompts: np.ndarray, tokens: np.ndarray) -> float:
        """Responses of `tokens` tokens after prompts of `prompts` tokens, with the head."""
        s = self.shape
        q, kv = s.heads * s.head_dim, s.kv_heads * s.head_dim
        whole = (q + 2 * kv) * s.width + q * s.width + 3 * s.width * s.ffn
        per_token = 2.0 * (s.layers * whole + s.vocabulary * s.width)
        seen = tokens * (prompts - 1) + tokens * (tokens + 1) / 2
        return float((per_token * tokens + 4.0 * q * s.layers * seen).sum())

    def batch(self, batch: Any) -> float:
        lengths = np.array([len(prompt) for prompt in batch.prompts])
        return self.prompts(lengths) + self.responses(lengths[batch.prompt_of_row], batch.response_length)

    def watch(self, run: _Run) -> None:
        play, hidden, score = run.collector.rollout, scoring.hidden_states, cross_score.log_likelihoods

        def _rollout(*arguments: Any) -> Any:
            batch = play(*arguments)
            self.total += self.batch(batch)
            return batch

        def _hidden(weights: Any, batch: Any, pad: int) -> Any:
            self.total += self.batch(batch) * (3 if torch.is_grad_enabled() else 1)
            return hidden(weights, batch, pad)

        def log_likelihoods(weights: Any, prompts: Any, reasonings: Any, lengths: np.ndarray, *more: Any) -> Any:
            sizes = np.array([len(prompt) for prompt in prompts])
            distinct = {tuple(tokens[:length]) for tokens, length in zip(reasonings.tolist(), lengths, strict=True)}
            pairs = np.broadcast_arrays(sizes[:, None], np.array([len(tokens) for tokens in distinct])[None, :])
            self.total += self.prompts(sizes) + self.responses(*pairs)
            return score(weights, prompts, reasonings, lengths, *more)

        run.collector.rollout = _rollout  # type: ignore[method-assign]
        scoring.hidden_states = _hidden
        cross_score.log_likelihoods = log_likelihoods


class MatrixProduct:
    """One float32 matrix product of 1024 x 1024, timed."""

    def __init__(self, size: int = 1024) -> None:
        self.a, self.b = torch.randn(size, size), torch.randn(size, size)
        self.gflop = 2 * size**3 / 1e9

    def __call__(self) -> float:
        started = time.process_time()
        self.a @ self.b
        return time.process_time() - started


# --- the two trainers -------------------------------------------------------------------------------------------------


def better_half(seconds: list[float]) -> float:
    return float(np.mean(sorted(seconds)[: (len(seconds) + 1) // 2]))


def ours(overrides: tuple[str, ...], cache: Path, steps: int = STEPS) -> dict[str, float]:
    """Seconds a step, GFLOP a step, GFLOP/s of matrix products between the steps, and what the steps were like."""
    config: RunConfig = config_object(build_run([*QUIET, *overrides]), SPEC)
    run = _Run(config, NoIO(cache))
    count = Operations(run.shape)
    for step in range(1, WARM_UP + 1):
        run._iterate(step)
    gc.collect()
    gc.freeze()  # as the worker server does
    count.watch(run)
    times, products, product = [], [], MatrixProduct()
    product()
    for step in range(WARM_UP + 1, WARM_UP + 1 + steps):
        started = time.process_time()
        run._iterate(step)
        times.append(time.process_time() - started)
        products.append(product())
    timed = run.io.metrics[WARM_UP:]

    def mean(name: str) -> float:
        return float(np.mean([metrics.get(name, 0.0) for metrics in timed]))

    return {
        "seconds": better_half(times),
        "step": mean("time/step"),
        "peak": product.gflop / better_half(products),
        "gflop": float(count.total) / steps / 1e9,
        "parameters": run.shape.parameters,
        "tokens": mean("rollout/response_tokens"),
        **{name: mean(f"time/{name}") for name in ("rollout", "cross_score", "update")},
    }


def trl(checkpoint: Path, scratch: Path, steps: int = STEPS) -> dict[str, float]:
    """Seconds a step of TRL's GRPOTrainer on the same checkpoint, prompts and reward."""
    import logging
    import warnings

    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    from datasets import Dataset
    from transformers import AutoTokenizer, PrinterCallback, Qwen2ForCausalLM, TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    config: RunConfig = config_object(build_run([*QUIET, *ONE_TURN]), SPEC)
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
        use_cpu=True,
        bf16=False,
        per_device_train_batch_size=PROMPTS * GROUP,
        gradient_accumulation_steps=1,
        num_generations=GROUP,
        max_completion_length=TOKENS,
        temperature=1.0,
        top_p=1.0,
        top_k=0,
        beta=0.0,
        num_iterations=1,
        learning_rate=1e-5,
        max_steps=WARM_UP + steps,
        gradient_checkpointing=False,
        logging_steps=1000,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_num_workers=0,
        seed=0,
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
    return {"seconds": better_half(times), "tokens": float(np.mean(words))}


# --- the figures ------------------------------------------------------------------------------------------------------


def figure(name: str, value: float, unit: str, against: str, ratio: float | None, ok: bool | None) -> None:
    print(
        "BENCH "
        + json.dumps({"name": name, "value": value, "unit": unit, "against": against, "ratio": ratio, "ok": ok})
    )


def one_turn(folder: Path) -> None:
    """Both trainers from one random checkpoint of about 94,000 parameters: nearly every response has 48 tokens."""
    shape = Shape(WordTokenizer().vocabulary, 2, 64, 4, 2, 144)
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    hf.save(checkpoint, shape, initialise(shape, 0))
    save_word_tokenizer(checkpoint)
    mine = ours((*ONE_TURN, f"model.path={checkpoint}"), folder)
    rate = PROMPTS * GROUP / mine["seconds"]
    print(
        f"one turn, {mine['parameters']:,.0f} parameters: {mine['seconds']:.3f} s a step, {mine['tokens']:.1f} tokens"
    )
    name = "one turn, one update"
    if find_spec("trl") is None:
        figure(
            name,
            rate,
            "trajectories/s",
            "TRL is not installed (make bench does it)",
            None,
            None,
        )
        return
    theirs = trl(checkpoint, folder)
    print(f"TRL: {theirs['seconds']:.3f} s a step, {theirs['tokens']:.1f} words before the end of sequence")
    ratio = theirs["seconds"] / mine["seconds"]
    against = f"at least 2 x TRL's GRPOTrainer, {PROMPTS * GROUP / theirs['seconds']:,.0f}/s"
    figure(name, rate, "trajectories/s", against, ratio, ratio >= 2)


def multi_turn(folder: Path) -> None:
    step = ours(MULTI_TURN, folder)
    peak = step["peak"]
    rate, work = PROMPTS * GROUP / step["seconds"], step["gflop"] / step["seconds"]
    shares = ", ".join(f"{name} {step[name] / step['step']:.0%}" for name in ("rollout", "cross_score", "update"))
    print(f"FrozenLake, {step['parameters']:,.0f} parameters: {step['seconds']:.3f} s a step ({shares})")
    print(f"{step['tokens']:.1f} tokens a turn, {step['gflop']:.1f} GFLOP a step at {work:.0f} of {peak:.0f} GFLOP/s")
    share = 100 * work / peak
    against = f"1024 x 1024 products beside it, {peak:.0f} GFLOP/s"
    figure(
        f"four updates, cross-scoring ({rate:,.0f} trajectories/s)", share, "% of the rate", against, work / peak, None
    )
    outside, operations = profiled(folder)
    figure("a step outside matrix products", 100 * outside, "% of its time", "the same step, profiled", None, None)
    figure("operations of a step", operations, "operations", "a count", None, None)


PRODUCTS = ("aten::mm", "aten::addmm", "aten::addmm_", "aten::bmm", "aten::baddbmm")


def profiled(folder: Path, steps: int = 4) -> tuple[float, float]:
    """Share of the operations' time that is not in matrix products, and the number of operations of a step."""
    from torch.profiler import profile

    config: RunConfig = config_object(build_run([*QUIET, *MULTI_TURN]), SPEC)
    run = _Run(config, NoIO(folder))
    for step in range(1, WARM_UP + 1):
        run._iterate(step)
    with profile() as profiler:
        for step in range(WARM_UP + 1, WARM_UP + 1 + steps):
            run._iterate(step)
    events = profiler.key_averages()
    total = sum(event.self_cpu_time_total for event in events)
    products = sum(event.self_cpu_time_total for event in events if event.key in PRODUCTS)
    return 1 - products / total, sum(event.count for event in events) / steps


def main() -> None:
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ENVIRONMENT)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "--profile" in sys.argv:
            from torch.profiler import profile

            with profile() as profiler:
                ours(MULTI_TURN, folder, 10)
            print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=30, max_name_column_width=45))
            return
        multi_turn(folder)
        one_turn(folder)


if __name__ == "__main__":
    main()
