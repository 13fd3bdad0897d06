"""Evaluate the policy with replaced reasonings, to measure the effect of their content on success.

In every turn the policy responds as usual. Then its reasoning is replaced, and the rest is generated anew after the
prompt, the new reasoning and the closing think tag.

    swapped   by the reasoning of another instance in the same turn, drawn at random (never its own if there are two)
    blanked   by nothing

Instances and random numbers are those of the ordinary evaluation; the number of a token depends on its position in the
response alone. So replacing a reasoning by itself changes nothing. A turn whose think section does not close stays as
it is, and its reasoning is given to no other.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from plat_envs.stand_in import END_THINK
from plat_rl.embedded.batch import Batch
from plat_rl.embedded.evaluate import evaluate
from plat_rl.embedded.generate import generate
from plat_rl.embedded.rollout import Turn
from plat_rl.embedded.transformer.model import Weights
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.loop.randomness import SWAP, FixedInstances, generator
from plat_rl.run_config import RunConfig

Reasoning = list[int]
# (number of the turn, closed reasonings of its rows) -> what each row gets in place of its own
Choose = Callable[[int, list[Reasoning]], list[Reasoning]]
REPORTED = ("success", "return", "format_valid")


def evaluate_replaced(
    weights: Weights, tokenizer: Tokenizer, config: RunConfig, instances: FixedInstances
) -> tuple[dict[str, float], dict[str, Batch]]:
    """Evaluate the policy with swapped and with blanked reasonings; return the metrics and the trajectories.

    The metrics are the names in REPORTED with the suffix `_swapped` or `_blanked`, e.g. `success_swapped`.
    `replaced_swapped` and `replaced_blanked` are the shares of turns with a replaced reasoning. No name begins with
    `val/`. The keys of the trajectories are `swapped` and `blanked`.
    """

    def swap(turn: int, reasonings: list[Reasoning]) -> list[Reasoning]:
        order = generator(SWAP, config.eval.seed, instances.split, turn).permutation(len(reasonings))
        return [reasonings[giver] for giver in np.roll(order, -1)[np.argsort(order)]]

    def blank(turn: int, reasonings: list[Reasoning]) -> list[Reasoning]:
        return [[] for _ in reasonings]

    metrics: dict[str, float] = {}
    batches: dict[str, Batch] = {}
    for name, choose in {"swapped": swap, "blanked": blank}.items():
        replace = Replace(weights, tokenizer, config.eval.temperature, choose)
        measured, batch = evaluate(weights, tokenizer, config, instances, replace)
        metrics |= {f"{key}_{name}": measured[key] for key in REPORTED}
        metrics[f"replaced_{name}"] = replace.replaced / len(batch.turn_of_row)
        batches[name] = batch
    return metrics, batches


class Replace:
    """Replaces the reasonings of a turn and generates the rest anew; `replaced` counts them."""

    def __init__(self, weights: Weights, tokenizer: Tokenizer, temperature: float, choose: Choose) -> None:
        self.weights, self.tokenizer, self.temperature, self.choose = weights, tokenizer, temperature, choose
        self.close = tokenizer.encode(END_THINK)
        self.replaced = 0

    def __call__(self, number: int, turn: Turn) -> list[list[int]]:
        """Return the responses of a turn as token ids, with other reasonings, and eos where the policy ended them."""
        responses, closed, reasonings = [list(response) for response in turn.responses], [], []
        for row, response in enumerate(responses):
            body = response[:-1] if response[-1] == self.tokenizer.eos else response
            tokens = self.tokenizer.reasoning_tokens(body)
            if tokens >= 0:
                closed.append(row)
                reasonings.append(body[:tokens])
        if not closed:
            return responses
        room = turn.chances.shape[1]
        starts = [(given + self.close)[:room] for given in self.choose(number, reasonings)]
        rests = self._rests([turn.prompts[row] for row in closed], starts, turn.chances[closed])
        for row, start, rest in zip(closed, starts, rests, strict=True):
            responses[row] = start + rest
        self.replaced += len(closed)
        return responses

    def _rests(
        self, prompts: list[tuple[int, ...]], starts: list[list[int]], chances: NDArray[np.float32]
    ) -> list[list[int]]:
        """Generate what follows each of these beginnings of a response."""
        room = chances.shape[1]
        left = room - min(map(len, starts))
        if not left:
            return [[] for _ in starts]
        moved = np.zeros((len(starts), left), dtype=chances.dtype)
        for row, start in enumerate(starts):
            moved[row, : room - len(start)] = chances[row, len(start) :]
        given = [(*prompt, *start) for prompt, start in zip(prompts, starts, strict=True)]
        ids, lengths, *_ = generate(self.weights, self.tokenizer, given, np.arange(len(given)), moved, self.temperature)
        return [
            tokens[: min(length, room - len(start))].tolist()
            for tokens, length, start in zip(ids, lengths, starts, strict=True)
        ]
