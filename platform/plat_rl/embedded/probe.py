"""The reasoning probe: measure on fresh reasonings how much they depend on their prompts.

The policy reasons once about each of `mi.probe` fresh held-out instances, in independent blocks of eight distinct ones.
It scores each reasoning under the eight prompts of its block. A reasoning is retrieved if its own prompt makes it
likeliest; chance is 1/8. A reasoning is the first turn's think section, drawn and scored at `train.temperature`. An
empty or unclosed one counts as not fluent, as retrieved at chance, and not at all in H(Z|X).

Retrieval above chance is no evidence of reasoning: a sample is likelier under the distribution it came from. The null
(`untrained`) is the retrieval of a randomly initialised model of the same shape, on its own samples of equal lengths.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray

from plat_envs.api import LEVELS
from plat_rl.embedded.batch import Batch, is_last_turn
from plat_rl.embedded.generate import generate
from plat_rl.embedded.learner import Learner
from plat_rl.embedded.rollout import Episodes, Sampling, rollout
from plat_rl.embedded.scoring import log_likelihoods
from plat_rl.embedded.transformer.model import Weights, initialise, unpack
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.environments import Sessions
from plat_rl.loop.randomness import PROBE, UNTRAINED, generator, probe_instances, uniforms
from plat_rl.loop.trajectory_table import level_shares
from plat_rl.loop.turns import NOT_A_LEVEL, NOT_GRADED
from plat_rl.rl.config import PROBE_BLOCK
from plat_rl.rl.gradient_probe import quantile_buckets
from plat_rl.rl.mutual_information import retrieval_credit
from plat_rl.rl.statistics import trajectories_of, variance
from plat_rl.run_config import RunConfig

Prompt = tuple[int, ...]


@dataclass(frozen=True)
class Reasonings:
    """N reasonings of one policy, each about another prompt. Block b is reasonings 8 b to 8 b + 7."""

    prompts: list[Prompt]
    tokens: NDArray[np.int64]  # (N, K) padded
    lengths: NDArray[np.int64]  # (N,), 0 where there is no reasoning
    levels: NDArray[np.int64]  # (N,) index into plat_envs.api.LEVELS; or as in `played_response`


@dataclass(frozen=True)
class ProbeResult:
    """The scores of N reasonings."""

    hits: NDArray[np.float64]  # (N,) 1 where retrieved, a fraction for ties
    h_z_given_x: NDArray[np.float64]  # (N,) nats per token, NaN where there is no reasoning
    levels: NDArray[np.int64]  # (N,) as in `Reasonings`

    def metrics(self) -> dict[str, float]:
        """Return means over all reasonings; `probe/h_z_given_x` is left out if there is no reasoning.

        `probe/valid_reasonings` counts those that are closed and not empty. The others count as retrieved at chance.

        For each level: its share (`probe/level/`) and its retrieval accuracy (`probe/retrieval_acc/`, left out if the
        level does not occur). Retrieval falls if shares move to emptier levels, or if reasonings of a level say less.
        """
        measured = self.h_z_given_x[~np.isnan(self.h_z_given_x)]
        return {
            "probe/retrieval_acc": float(self.hits.mean()),
            "probe/retrieval_chance": 1 / PROBE_BLOCK,
            "probe/valid_reasonings": float(measured.size),
            **level_shares("probe/", "fluent", self.levels),
            **{
                f"probe/retrieval_acc/{name}": float(self.hits[self.levels == index].mean())
                for index, name in enumerate(LEVELS)
                if (self.levels == index).any()
            },
        } | ({"probe/h_z_given_x": float(measured.mean())} if measured.size else {})

    def table(self) -> dict[str, Any]:
        """Return JSON-able lists by block: sums (hits, fluent, levels) and means (h_z_given_x; None if empty)."""
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
    """Return the sums of values (N,) over each block, rounded to six digits."""
    return [round(float(total), 6) for total in values.reshape(-1, PROBE_BLOCK).sum(1)]


def probe_result(scores: torch.Tensor, lengths: NDArray[np.int64], levels: NDArray[np.int64]) -> ProbeResult:
    """Return the result of N reasonings with log-likelihoods (N, 8) under the prompts of their blocks.

    lengths   (N,) of the reasonings in tokens; 0 or less: there is no reasoning
    levels    (N,) of the reasonings
    """
    own = torch.arange(len(scores)) % PROBE_BLOCK
    matched = scores.gather(1, own[:, None])[:, 0].numpy()
    measured = np.where(lengths > 0, lengths, math.nan)
    credit = retrieval_credit(scores, own).numpy()
    graded = np.where((lengths > 0) | (levels == NOT_GRADED), levels, NOT_A_LEVEL)
    return ProbeResult(credit, -matched / measured, graded)


class Probe:
    """Draws and scores `mi.probe` reasonings at a time. Instances and tokens are functions of (seed, step).

    excluded   problems (of the held-out set) that are not used while the task has others
    """

    def __init__(
        self, config: RunConfig, tokenizer: Tokenizer, excluded: set[str], sessions: Sessions | None = None
    ) -> None:
        self.config, self.tokenizer, self.excluded = config, tokenizer, excluded
        self.sessions = sessions or Sessions(config)
        self.sampling = Sampling(1, config.task.response_tokens, config.train.temperature)

    def draw(self, policy: Weights, step: int) -> Reasonings:
        """Draw fresh reasonings of the policy, one for each of `mi.probe` instances."""
        count = self.config.mi.probe
        with self.sessions.lease("heldout", count) as environments:
            seeds = probe_instances(environments[0], self.config, step, self.excluded)
            episodes = Episodes(environments, seeds, [0] * count, np.arange(count), self.sessions.concurrent)
            batch = rollout(policy, self.tokenizer, episodes, self.sampling, (PROBE, self.config.seed, step))
        prompts = [batch.prompts[number] for number in batch.prompt_of_row]
        return Reasonings(prompts, batch.responses, np.maximum(batch.reasoning_length, 0), batch.reasoning_level)

    def score(self, policy: Weights, reasonings: Reasonings) -> ProbeResult:
        """Score each reasoning under the prompts of its block by the policy that drew it."""
        prompts, tokens, lengths = reasonings.prompts, reasonings.tokens, reasonings.lengths
        candidates = np.arange(len(prompts)).reshape(-1, PROBE_BLOCK).repeat(PROBE_BLOCK, axis=0)
        pad, temperature = self.tokenizer.pad, self.config.train.temperature
        scores = log_likelihoods(policy, prompts, tokens, lengths, pad, temperature, candidates)
        return probe_result(scores, lengths, reasonings.levels)

    def untrained(self, policy: Weights, reasonings: Reasonings) -> float:
        """Return the null: the retrieval accuracy of a randomly initialised model, on samples of these lengths."""
        seed = int(generator(UNTRAINED, self.config.seed).integers(2**31))
        flat = initialise(policy.shape, seed).to(policy.embed.device, policy.embed.dtype)
        random_model = unpack(policy.shape, flat)
        count = len(reasonings.prompts)
        drawn = uniforms((UNTRAINED, self.config.seed), 0, count, max(1, int(reasonings.lengths.max())))
        own = self.tokenizer
        tokens, *_ = generate(
            random_model,
            cast(Tokenizer, SimpleNamespace(pad=own.pad, eos=-1, undrawn=own.undrawn)),  # a text never ends
            reasonings.prompts,
            np.arange(count),
            drawn,
            self.config.train.temperature,
        )
        samples = Reasonings(reasonings.prompts, tokens, reasonings.lengths, np.full(count, -1))
        return float(self.score(random_model, samples).hits.mean())


# Separate signal and noise in a bucket's task gradient, by two random halves of its trajectories (figure 3).
#
# Sampling noise biases the norm of a gradient upwards. So each prompt's trajectories are split into two halves with
# their own advantages: given the prompts, the noise of the two gradients is independent. Their inner product estimates
# the squared norm of the expected gradient without bias. Their cosine shows the share of signal.
#
# The null permutes the returns among the trajectories of each prompt, each at its trajectory's last turn: rewards of
# the same spread, independent of the actions.

ROUNDING = 1e-8  # a gradient of this norm is rounding, and has no direction


def halves_metrics(
    learner: Learner, batch: Batch, buckets: int, size: int, rng: np.random.Generator
) -> dict[str, float]:
    """Return the `grad/` metrics of halves at the current weights; nothing is changed.

    batch   prompt after prompt, each with `size` trajectories (4 or more; of an odd number the last one is left out)

    grad/q<n>/halves_inner, halves_cosine    of the task gradients of the two halves of a bucket
    grad/q<n>/null_task                      norm of the bucket's task gradient under the null
    grad/q<n>/null_inner, null_cosine        of its halves under the null

    A cosine is left out where a half has no gradient.
    """
    returns = batch.returns.reshape(-1, size)
    parts = quantile_buckets(np.sqrt(variance(returns, ddof=1)), buckets)
    halves = random_halves(len(returns), size, rng)
    null = with_returns(batch, rng.permuted(returns, axis=1).ravel())
    whole = learner.gradients(null, [trajectories_of(part, size) for part in parts], task_only=True)
    metrics = {f"grad/q{number}/null_task": float(own["task"].norm()) for number, own in enumerate(whole, start=1)}
    for name, rewarded in (("halves", batch), ("null", null)):
        half_parts = [trajectories_of(part, size // 2) for part in parts]
        one, other = (learner.gradients(rewarded.select(half), half_parts, task_only=True) for half in halves)
        for number, (a, b) in enumerate(zip(one, other, strict=True), start=1):
            metrics |= _agreement(f"grad/q{number}/{name}", a["task"], b["task"])
    return metrics


def random_halves(prompts: int, size: int, rng: np.random.Generator) -> list[NDArray[np.int64]]:
    """Return the trajectory indices of two disjoint halves, rising, each with `size // 2` of every prompt."""
    order = rng.permuted(np.tile(np.arange(size), (prompts, 1)), axis=1)
    starts = size * np.arange(prompts)[:, None]
    half = size // 2
    return [np.sort(starts + members, axis=1).ravel() for members in (order[:, :half], order[:, half : 2 * half])]


def with_returns(batch: Batch, returns: NDArray[np.float64]) -> Batch:
    """Return a copy of the batch with these returns (N,), each at the last turn of its trajectory."""
    rewards = np.zeros_like(batch.rewards)
    rewards[is_last_turn(batch)] = returns
    return replace(batch, rewards=rewards)


def _agreement(prefix: str, one: torch.Tensor, other: torch.Tensor) -> dict[str, float]:
    inner, norms = float(torch.dot(one.double(), other.double())), (float(one.norm()), float(other.norm()))
    cosine = {f"{prefix}_cosine": inner / (norms[0] * norms[1])} if min(norms) > ROUNDING else {}
    return {f"{prefix}_inner": inner} | cosine
