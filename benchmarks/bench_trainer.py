"""The embedded trainer on one thread: against TRL at the same work, with four updates and cross-scoring, and against
the matrix-product rate of this machine.

    python benchmarks/bench_trainer.py             everything; TRL only where it is installed
    python benchmarks/bench_trainer.py --profile   where the time of the multi-turn step goes

`make bench` installs TRL (requirements-bench.txt) into a folder that only this script looks into. Both trainers start
from the same checkpoint, play the same FrozenLake instances (8 prompts x 16 rollouts, at most 48 tokens, reward by the
same environment), and do one AdamW update a step; start-up and the first steps are not timed. The clock is the CPU time
of the process, which has one thread, so that waiting for a core does not count. Of everything timed the faster half
counts, because a busy machine slows the rest, too.

Which floating-point operations a step must do is said in trainers/operations.py. The rate they are held against is that
of 1024 x 1024 products between the steps.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch
from trainers.embedded import embedded_steps, share_outside_products
from trainers.with_trl import trl_steps
from trainers.workload import GROUP, MULTI_TURN, ONE_TURN, PROMPTS

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
    mine = embedded_steps((*ONE_TURN, f"model.path={checkpoint}"), folder)
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
    theirs = trl_steps(checkpoint, folder)
    print(f"TRL: {theirs['seconds']:.3f} s a step, {theirs['tokens']:.1f} words before the end of sequence")
    ratio = theirs["seconds"] / mine["seconds"]
    against = f"at least 2 x TRL's GRPOTrainer, {PROMPTS * GROUP / theirs['seconds']:,.0f}/s"
    figure(name, rate, "trajectories/s", against, ratio, ratio >= 2)


def multi_turn(folder: Path) -> None:
    step = embedded_steps(MULTI_TURN, folder)
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
    outside, operations = share_outside_products(folder)
    figure("a step outside matrix products", 100 * outside, "% of its time", "the same step, profiled", None, None)
    figure("operations of a step", operations, "operations", "a count", None, None)


def main() -> None:
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | ENVIRONMENT)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if "--profile" in sys.argv:
            from torch.profiler import profile

            with profile() as profiler:
                embedded_steps(MULTI_TURN, folder, 10)
            print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=30, max_name_column_width=45))
            return
        multi_turn(folder)
        one_turn(folder)


if __name__ == "__main__":
    main()
