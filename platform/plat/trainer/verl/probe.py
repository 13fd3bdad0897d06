"""The reasoning probe (`plat.trainer.embedded.probe`, whose result it gives), played and scored by verl's processes.

The null, a model that was never trained, is not measured: it would need a second model of the same size.
"""

from __future__ import annotations

import math

import numpy as np
import torch

from plat.rl.config import PROBE_BLOCK
from plat.rl.mutual_information import retrieval_credit
from plat.trainer.embedded.probe import ProbeResult
from plat.trainer.environments import make_environments
from plat.trainer.loop.randomness import PROBE, probe_seed
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.play import Play, Played, Tokens
from plat_envs.instances import TRIES, distinct_seeds


class Probe:
    """`mi.probe` reasonings at a time, on instances that are functions of (seed, step), none of them in `excluded`."""

    def __init__(self, config: VerlRunConfig, excluded: set[str]) -> None:
        self.config, self.excluded = config, excluded
        self.environment = make_environments(config, "heldout", 1)[0]

    def play(self, step: int) -> Play:
        """What is played: the first turn of each instance."""
        config, tries = self.config, TRIES * PROBE_BLOCK
        seeds = [
            seed
            for block in range(config.mi.probe // PROBE_BLOCK)
            for seed in distinct_seeds(
                self.environment, probe_seed(config.seed, step, block, tries), PROBE_BLOCK, self.excluded
            )
        ]
        return Play("heldout", seeds, 1, (PROBE, config.seed, step), config.train.temperature, turns=1)


def pairs_of(played: Played) -> list[tuple[Tokens, Tokens]]:
    """Each reasoning under the eight prompts of its block: 8 pairs for each row, one after the other."""
    return [
        (played.prompts[row - row % PROBE_BLOCK + other], played.reasonings[row])
        for row in range(len(played.prompts))
        for other in range(PROBE_BLOCK)
    ]


def result_of(played: Played, scores: np.ndarray) -> ProbeResult:
    """What the log-likelihoods of `pairs_of` say."""
    matrix = torch.from_numpy(scores.reshape(-1, PROBE_BLOCK))
    own = torch.arange(len(matrix)) % PROBE_BLOCK
    matched = matrix.gather(1, own[:, None])[:, 0].numpy()
    lengths = np.maximum(played.reasoning_length, 0)
    levels = np.where(lengths > 0, played.reasoning_level, -1)
    return ProbeResult(
        retrieval_credit(matrix, own).numpy(), -matched / np.where(lengths > 0, lengths, math.nan), levels
    )
