"""What the filter saves of a step of verl's trainer, on a language model with random weights (the claim of Table 5).

    python benchmarks/verl_step_time.py                       one GPU, 494 million parameters, bfloat16
    python benchmarks/verl_step_time.py --device cpu --tiny   does it run? on two cores, in three minutes

Two runs of the same seed: one learns from every prompt, the other from half of them, drawn at random, because rewards
of random weights have no spread to rank prompts by. What a step costs does not depend on which prompts are kept. The
model needs no download: a Qwen2 of the shape of Qwen2.5-0.5B, and a tokenizer of bytes, are made here. Of the
iterations the first is left out, which warms up. Not part of `make bench`.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

QWEN_HALF_BILLION = {
    "hidden_size": 896,
    "intermediate_size": 4864,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
}
TINY = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 512,
    "tie_word_embeddings": True,
}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FILTERS = {"every prompt": ["filter=none"], "half of the prompts": ["filter=random", "filter.value=0.5"]}
PHASES = ("rollout", "update", "step")


def make_model(folder: Path, shape: dict[str, Any]) -> None:
    """A checkpoint with random weights in the Hugging Face format, and a tokenizer of bytes with a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(SPECIAL))
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    Qwen2ForCausalLM(Qwen2Config(**shape, **ids, max_position_embeddings=32768)).save_pretrained(folder)


def phases_of(home: Path, overrides: list[str]) -> dict[str, float]:
    """The median seconds of each phase of a run's iterations but the first; CalledProcessError when it fails."""
    from plat.spec.experiment import build_run
    from plat.store.home import Home
    from plat.store.run_directory.spool import read_events

    subprocess.run([sys.executable, "-m", "plat", "run", *overrides, "--home", str(home)], check=True)
    seconds: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for attempt in Home(home).run(build_run(overrides).id).attempts():
        for event in read_events(attempt.events)[0]:
            for phase in PHASES:
                if event.step > 1 and f"time/{phase}" in event.metrics:
                    seconds[phase].append(event.metrics[f"time/{phase}"])
    return {phase: median(values) for phase, values in seconds.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rollout", choices=("auto", "vllm", "hf"), default="auto")
    parser.add_argument("--tiny", action="store_true", help="a model of 2 layers, 4 trajectories of 16 tokens")
    parser.add_argument("--algorithm", choices=("ppo", "grpo", "dapo", "drgrpo"), default="grpo")
    parser.add_argument("--iterations", type=int, default=6)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model, home = Path(scratch, "model"), Path(scratch, "home")
        make_model(model, TINY if options.tiny else QWEN_HALF_BILLION)
        prompts, group, tokens = (4, 2, 16) if options.tiny else (8, 16, 80)
        base = [
            *("trainer=verl", "scale=paper", "task=frozenlake", f"algorithm={options.algorithm}", "verl.workers=1"),
            *(f"model.path={model}", f"device={options.device}", f"verl.rollout={options.rollout}"),
            f"dtype={'float32' if options.device == 'cpu' else 'bfloat16'}",
            *("task.turns=3", f"task.response_tokens={tokens}", "task.env.max_solution=6"),
            *(f"train.prompts={prompts}", f"train.group_size={group}"),
            *(f"train.iterations={options.iterations}", "train.checkpoint_every=1000000"),
            *("early_stop.variance_window=0", "early_stop.success_window=0", "early_stop.empty_window=0"),
            *("eval.every=1000000", "eval.instances=2", "eval.heldout=0", "mi.every=0", "mi.probe=0"),
        ]
        taken = {name: phases_of(home, [*base, *chosen]) for name, chosen in FILTERS.items()}
    whole, half = taken.values()
    for phase in PHASES:
        figure = {"name": f"verl, {phase}, half of the prompts kept", "value": half[phase], "unit": "s"}
        figure |= {"against": f"every prompt kept: {whole[phase]:.3g} s", "ratio": whole[phase] / half[phase]}
        print("BENCH " + json.dumps(figure))


if __name__ == "__main__":
    main()
