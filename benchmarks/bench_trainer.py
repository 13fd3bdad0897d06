"""Time the embedded trainer on one thread, against TRL at the same work and the machine's matrix-product rate.

Both trainers start from the same checkpoint, play the same FrozenLake instances (8 prompts x 16 rollouts, at most 48
tokens, reward by the same environment), and do one AdamW update a step. A multi-turn step has four updates and
cross-scoring. Start-up and the first steps are not timed. The clock is the CPU time of the process, so waiting for a
core does not count. The faster half of the steps counts. The reference rate is that of 1024 x 1024 products between the
steps. TRL is measured only if it is installed (`make bench` does it, from requirements-bench.txt).
"""

from __future__ import annotations

import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import torch
from measuring import figure, use_one_thread
from trainers.embedded import GROUP, MULTI_TURN, ONE_TURN, PROMPTS, embedded_steps, share_outside_products
from trainers.with_trl import trl_steps

from plat_rl.embedded.transformer import hf
from plat_rl.embedded.transformer.model import Shape, initialise
from plat_rl.embedded.transformer.tokenizer import WordTokenizer, save_word_tokenizer

sys.path.append(str(Path(sys.prefix) / "bench"))

MALLOC = {"MALLOC_TRIM_THRESHOLD_": "536870912", "MALLOC_MMAP_THRESHOLD_": "536870912"}  # freed arrays are reused


def one_turn(folder: Path) -> None:
    """Time both trainers from one random checkpoint of about 94,000 parameters: nearly every response has 48 tokens."""
    shape = Shape(WordTokenizer().vocabulary, 2, 64, 4, 2, 144)
    checkpoint = folder / "checkpoint"
    checkpoint.mkdir()
    hf.save(checkpoint, shape, initialise(shape, 0))
    save_word_tokenizer(checkpoint, WordTokenizer())
    mine = embedded_steps((*ONE_TURN, f"model.path={checkpoint}"), folder)
    rate = PROMPTS * GROUP / mine["seconds"]
    step = f"{mine['seconds']:.3f} s a step, {mine['tokens']:.1f} tokens"
    print(f"one turn, {mine['parameters']:,.0f} parameters: {step}")
    name, unit = "one turn, one update", "trajectories/s"
    if find_spec("trl") is None:
        figure(name, rate, unit, "TRL is not installed (make bench does it)")
        return
    theirs = trl_steps(checkpoint, folder)
    print(f"TRL: {theirs['seconds']:.3f} s a step, {theirs['tokens']:.1f} words before the end of sequence")
    ratio = theirs["seconds"] / mine["seconds"]
    against = f"at least 2 x TRL's GRPOTrainer, {PROMPTS * GROUP / theirs['seconds']:,.0f}/s"
    figure(name, rate, unit, against, ratio=ratio, ok=ratio >= 2)


def multi_turn(folder: Path) -> None:
    step = embedded_steps(MULTI_TURN, folder)
    peak = step["peak"]
    rate, work = PROMPTS * GROUP / step["seconds"], step["gflop"] / step["seconds"]
    shares = ", ".join(f"{name} {step[name] / step['step']:.0%}" for name in ("rollout", "cross_score", "update"))
    print(f"FrozenLake, {step['parameters']:,.0f} parameters: {step['seconds']:.3f} s a step ({shares})")
    print(f"{step['tokens']:.1f} tokens a turn, {step['gflop']:.1f} GFLOP a step at {work:.0f} of {peak:.0f} GFLOP/s")
    name, against = f"four updates, cross-scoring ({rate:,.0f} trajectories/s)", "1024 x 1024 products beside it"
    figure(name, 100 * work / peak, "% of the rate", f"{against}, {peak:.0f} GFLOP/s", ratio=work / peak)
    outside, operations = share_outside_products(folder)
    figure("a step outside matrix products", 100 * outside, "% of its time", "the same step, profiled")
    figure("operations of a step", operations, "operations", "a count")


def main() -> None:
    use_one_thread(HF_HUB_OFFLINE="1", **MALLOC)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        multi_turn(folder)
        one_turn(folder)


if __name__ == "__main__":
    main()
