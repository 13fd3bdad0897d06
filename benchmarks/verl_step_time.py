"""Measure how much the filter saves of a step of verl's trainer, with random weights (the claim of Table 5).

    python benchmarks/verl_step_time.py                       one GPU, 494 million parameters, bfloat16
    python benchmarks/verl_step_time.py --device cpu --tiny   a quick test on two cores, three minutes

Two runs have the same seed: one learns from every prompt, the other from half of them, drawn at random, because rewards
of random weights have no spread to rank prompts by. The cost of a step does not depend on which prompts are kept. The
model needs no download: the script makes a Qwen2 of the shape of Qwen2.5-0.5B and a tokenizer of bytes. The first
iteration, which warms up, is left out. Not part of `make bench`.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from measuring import figure, options, plat

COMMON = {"num_key_value_heads": 2, "tie_word_embeddings": True}
QWEN_HALF_BILLION = {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14}
QWEN_HALF_BILLION |= {"vocab_size": 151936, **COMMON}
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY |= {"vocab_size": 512, **COMMON}
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
FILTERS = {"every prompt": ["filter=none"], "half of the prompts": ["filter=random", "filter.value=0.5"]}
PHASES = ("rollout", "update", "step")


def make_model(folder: Path, shape: dict[str, Any]) -> None:
    """Write a checkpoint with random weights in the Hugging Face format, and a byte tokenizer with a chat template."""
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    inner = Tokenizer(models.BPE({letter: number for number, letter in enumerate(letters)}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens(list(SPECIAL))
    tokens = {"eos_token": "<|im_end|>", "pad_token": "<|endoftext|>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, chat_template=TEMPLATE, **tokens)
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    ids = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    Qwen2ForCausalLM(Qwen2Config(**shape, **ids, max_position_embeddings=32768)).save_pretrained(folder)


def phases_of(home: Path, overrides: list[str]) -> dict[str, float]:
    """Return the median seconds of each phase, without the first iteration. CalledProcessError if the run fails."""
    from plat.spec.expansion.experiment import build_run
    from plat.store.home import Home
    from plat.store.run_directory.spool import read_events

    subprocess.run(plat("run", *overrides, home=home), check=True)
    seconds: dict[str, list[float]] = {phase: [] for phase in PHASES}
    for attempt in Home(home).run(build_run(overrides).id).attempts():
        for event in read_events(attempt.events)[0]:
            for phase in PHASES:
                if event.step > 1 and f"time/{phase}" in event.metrics:
                    seconds[phase].append(event.metrics[f"time/{phase}"])
    return {phase: median(values) for phase, values in seconds.items()}


def main() -> None:
    parser = options(__doc__, iterations=6)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--rollout", choices=("auto", "vllm", "hf"), default="auto")
    parser.add_argument("--tiny", action="store_true", help="a model of 2 layers, 4 trajectories of 16 tokens")
    parser.add_argument("--algorithm", choices=("ppo", "grpo", "dapo", "drgrpo"), default="grpo")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        model, home = Path(scratch, "model"), Path(scratch, "home")
        make_model(model, TINY if given.tiny else QWEN_HALF_BILLION)
        prompts, group, tokens = (4, 2, 16) if given.tiny else (8, 16, 80)
        base = [
            *("trainer=verl", "scale=paper", "task=frozenlake", f"algorithm={given.algorithm}", "verl.workers=1"),
            *(f"model.path={model}", f"device={given.device}", f"verl.rollout={given.rollout}"),
            f"dtype={'float32' if given.device == 'cpu' else 'bfloat16'}",
            *("task.turns=3", f"task.response_tokens={tokens}", "task.env.max_solution=6"),
            *(f"train.prompts={prompts}", f"train.group_size={group}"),
            *(f"train.iterations={given.iterations}", "train.checkpoint_every=1000000"),
            *("early_stop.variance_window=0", "early_stop.success_window=0", "early_stop.empty_window=0"),
            *("eval.every=1000000", "eval.instances=2", "eval.heldout=0", "mi.every=0", "mi.probe=0"),
        ]
        taken = {name: phases_of(home, [*base, *chosen]) for name, chosen in FILTERS.items()}
    whole, half = taken.values()
    for phase in PHASES:
        against = f"every prompt kept: {whole[phase]:.3g} s"
        figure(f"verl, {phase}, half of the prompts kept", half[phase], "s", against, ratio=whole[phase] / half[phase])


if __name__ == "__main__":
    main()
