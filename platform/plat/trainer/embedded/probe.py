"""The reasoning probe: whether what the policy thinks still depends on the prompt, measured on fresh reasonings.

At an evaluation the policy reasons once about each of `mi.probe` fresh instances of the held-out split, in blocks of
eight distinct ones. Each reasoning is scored under the eight prompts of its block by the same policy, and is retrieved
when its own prompt is the one that makes it likeliest. A policy that ignores its prompt retrieves 1/8. Blocks are
independent of each other, so a test can count in blocks.

A reasoning is the first turn's think section, drawn and scored at `train.temperature`. One that is empty, or whose
think section never closes, says nothing about its prompt: it counts as not fluent, as retrieved at chance (1/8, as if
all eight prompts were tied), and not at all in H(Z|X).

**The null.** Retrieval above chance is no evidence of reasoning: a sample is always likelier under the distribution it
came from. `untrained` is the same measurement for a randomly initialised model of the same shape, on samples of its
own that are as long as the policy's.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from plat.rl.config import PROBE_BLOCK
from plat.rl.mutual_information import retrieval_credit
from plat.trainer.config import RunConfig
from plat.trainer.embedded.cross_score import log_likelihoods
from plat.trainer.embedded.generate import generate
from plat.trainer.embedded.rollout import Episodes, Sampling, rollout
from plat.trainer.embedded.transformer.model import Weights, initialise, unpack
from plat.trainer.embedded.transformer.tokenizer import Tokenizer
from plat.trainer.environments import make_environments
from plat.trainer.loop.randomness import PROBE, UNTRAINED, generator, probe_seed, uniforms
from plat_envs.api import LEVELS
from plat_envs.instances import TRIES, distinct_seeds

Prompt = tuple[int, ...]


@dataclass(frozen=True)
class Reasonings:
    """N reasonings of one policy, each about a prompt of its own. Block b is reasonings 8 b to 8 b + 7."""

    prompts: list[Prompt]
    tokens: NDArray[np.int64]  # (N, K) padded
    lengths: NDArray[np.int64]  # (N,), 0 where there is no reasoning
    levels: NDArray[np.int64]  # (N,) index into plat_envs.api.LEVELS; -1: not a sentence of the demonstration grammar


@dataclass(frozen=True)
class ProbeResult:
    """hits (N,): 1 where a reasoning was retrieved, a fraction for ties. h_z_given_x (N,): nats per token, NaN where
    there is no reasoning. levels (N,) as in `Reasonings`."""

    hits: NDArray[np.float64]
    h_z_given_x: NDArray[np.float64]
    levels: NDArray[np.int64]

    def metrics(self) -> dict[str, float]:
        """Means over all reasonings; `probe/h_z_given_x` is left out where there was not one reasoning.

        Of each level: the share of the reasonings that are of it (`probe/level/`), and their retrieval accuracy
        (`probe/retrieval_acc/`, left out where there is none). Retrieval may fall because policies reason about less,
        which moves the shares, or because they say less within a level.
        """
        measured = self.h_z_given_x[~np.isnan(self.h_z_given_x)]
        return {
            "probe/retrieval_acc": float(self.hits.mean()),
            "probe/retrieval_chance": 1 / PROBE_BLOCK,
            "probe/fluent": float((self.levels >= 0).mean()),
            **{f"probe/level/{name}": float((self.levels == index).mean()) for index, name in enumerate(LEVELS)},
            **{
                f"probe/retrieval_acc/{name}": float(self.hits[self.levels == index].mean())
                for index, name in enumerate(LEVELS)
                if (self.levels == index).any()
            },
        } | ({"probe/h_z_given_x": float(measured.mean())} if measured.size else {})

    def table(self) -> dict[str, Any]:
        """Sums (hits, fluent) and means (h_z_given_x, None where no reasoning is there) of each block, and the sums of
        each level in each block, JSON-able."""
        entropies = self.h_z_given_x.reshape(-1, PROBE_BLOCK)
        means = [float(np.mean(block[~np.isnan(block)])) if not np.isnan(block).all() else None for block in entropies]
        return {
            "block_size": PROBE_BLOCK,
            "hits": _block_sums(self.hits),
            "fluent": _block_sums(self.levels >= 0),
            "levels": {
                name: {
                    "count": _block_sums(self.levels == index),
                    "hits": _block_sums(np.where(self.levels == index, self.hits, 0.0)),
                }
                for index, name in enumerate(LEVELS)
            },
            "h_z_given_x": [None if mean is None else round(mean, 6) for mean in means],
        }


def _block_sums(values: NDArray[Any]) -> list[float]:
    """The sums of values (N,) over each block, exact to six digits."""
    return [round(float(total), 6) for total in values.reshape(-1, PROBE_BLOCK).sum(1)]


class Probe:
    """`mi.probe` reasonings at a time. Instances and tokens are functions of (seed, step).

    No instance is one of `excluded` (problems, of the held-out set) as long as the task has others.
    """

    def __init__(self, config: RunConfig, tokenizer: Tokenizer, excluded: set[str]) -> None:
        self.config, self.tokenizer, self.excluded = config, tokenizer, excluded
        self.environments = make_environments(config, "heldout", config.mi.probe)
        self.sampling = Sampling(1, config.task.response_tokens, config.train.temperature)

    def draw(self, policy: Weights, step: int) -> Reasonings:
        """Fresh reasonings of the policy, one for each of `mi.probe` instances."""
        count = len(self.environments)
        episodes = Episodes(self.environments, self._instances(step), [0] * count, np.arange(count))
        batch = rollout(policy, self.tokenizer, episodes, self.sampling, (PROBE, self.config.seed, step))
        prompts = [batch.prompts[number] for number in batch.prompt_of_row]
        lengths = np.maximum(batch.reasoning_length, 0)
        return Reasonings(prompts, batch.responses, lengths, np.where(lengths > 0, batch.reasoning_level, -1))

    def score(self, policy: Weights, reasonings: Reasonings) -> ProbeResult:
        """Each reasoning under the prompts of its block, by the policy that drew it."""
        count = len(reasonings.prompts)
        numbers = np.arange(count)
        candidates = numbers.reshape(-1, PROBE_BLOCK).repeat(PROBE_BLOCK, axis=0)
        own = torch.from_numpy(numbers % PROBE_BLOCK)
        scores = log_likelihoods(
            policy,
            reasonings.prompts,
            reasonings.tokens,
            reasonings.lengths,
            self.tokenizer.pad,
            self.config.train.temperature,
            candidates=candidates,
        )
        matched = scores.gather(1, own[:, None])[:, 0].numpy()
        lengths = np.where(reasonings.lengths > 0, reasonings.lengths, math.nan)
        return ProbeResult(retrieval_credit(scores, own).numpy(), -matched / lengths, reasonings.levels)

    def untrained(self, policy: Weights, reasonings: Reasonings) -> float:
        """The null: retrieval accuracy of a randomly initialised model, on samples as long as these reasonings."""
        seed = int(generator(UNTRAINED, self.config.seed).integers(2**31))
        flat = initialise(policy.shape, seed).to(policy.embed.device, policy.embed.dtype)
        random_model = unpack(policy.shape, flat)
        count = len(reasonings.prompts)
        drawn = uniforms((UNTRAINED, self.config.seed), 0, count, max(1, int(reasonings.lengths.max())))
        tokens, *_ = generate(
            random_model,
            cast(Tokenizer, _NeverEnding(self.tokenizer)),  # all that `generate` reads of a tokenizer is pad and eos
            reasonings.prompts,
            np.arange(count),
            torch.from_numpy(np.ascontiguousarray(drawn.T)),
            self.config.train.temperature,
        )
        samples = Reasonings(reasonings.prompts, tokens, reasonings.lengths, np.full(count, -1))
        return float(self.score(random_model, samples).hits.mean())

    def _instances(self, step: int) -> list[int]:
        """The instance seeds of all blocks, distinct within each."""
        tries = TRIES * PROBE_BLOCK
        return [
            seed
            for block in range(len(self.environments) // PROBE_BLOCK)
            for seed in distinct_seeds(
                self.environments[0], probe_seed(self.config.seed, step, block, tries), PROBE_BLOCK, self.excluded
            )
        ]


class _NeverEnding:
    """A tokenizer whose end of text is never drawn, for samples of a given length."""

    eos = -1

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.pad = tokenizer.pad
