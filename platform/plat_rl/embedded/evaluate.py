"""Evaluation on fixed instances, its trajectories as text, and `plat eval` of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat.trainer.api import State
from plat_envs.stand_in import END_THINK
from plat_rl.embedded.base_model.load import empty_model
from plat_rl.embedded.batch import Batch
from plat_rl.embedded.generate import generate
from plat_rl.embedded.rollout import Episodes, Rewrite, Sampling, Turn, rollout
from plat_rl.embedded.scoring import set_up
from plat_rl.embedded.transformer.model import Weights, unpack
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.loop.randomness import EVALUATION, SWAP, FixedInstances, chosen_instances, generator
from plat_rl.loop.trajectory_table import evaluation_metrics, instance_results
from plat_rl.run_config import RunConfig


def evaluate(
    weights: Weights, tokenizer: Tokenizer, config: RunConfig, instances: FixedInstances, rewrite: Rewrite | None = None
) -> tuple[dict[str, float], Batch]:
    """Play each instance once at `eval.temperature`; return the metrics (`evaluation_metrics`) and the trajectories.

    Random numbers are a function of `eval.seed`, the split and the instance's index. So two evaluations differ by the
    policy only, and the first 128 of 256 instances have the results of 128 instances. `rewrite` may change responses.
    """
    count = len(instances)
    task, temperature = config.task, config.eval.temperature
    sampling = Sampling(task.turns, task.response_tokens, temperature, config.train.context, task.token_cost)
    key = (EVALUATION, config.eval.seed, instances.split)
    with instances.lease() as environments:
        episodes = Episodes(environments, instances.seeds, range(count), np.arange(count), instances.concurrent)
        batch = rollout(weights, tokenizer, episodes, sampling, key, rewrite)
    return evaluation_metrics(batch), batch


def evaluate_checkpoint(
    config: RunConfig, state: State, cache: Path, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return split, instances (their number), the metrics by name, and results of a checkpoint's policy (`plat eval`).

    results    per instance, lists of: success (0 or 1), return, turns, moves
    cache      ignored
    overrides  split (validation or heldout) and instances (their number). Raises SpecError for others
    """
    instances = chosen_instances(config, overrides)
    set_up(config)
    shape, tokenizer = empty_model(config)
    weights = unpack(shape, state.tensors["actor.parameters"].to(config.device))
    metrics, batch = evaluate(weights, tokenizer, config, instances)
    return {"split": instances.split, "instances": len(instances), **metrics, "results": instance_results(batch)}


def transcripts(batch: Batch, tokenizer: Tokenizer, seeds: Sequence[int], count: int) -> list[dict[str, Any]]:
    """Return the first `count` trajectories, JSON-able.

    seed      of the instance
    success   0 or 1
    turns     [observation, response, reward] of each turn. In `full` context the observation is what is new in the
              prompt after the previous prompt and response
    """
    rows: list[list[int]] = [[] for _ in range(min(count, batch.trajectories))]
    for row in np.flatnonzero(batch.trajectory_of_row < count):
        rows[batch.trajectory_of_row[row]].append(int(row))
    return [
        {"seed": int(seed), "success": int(batch.success[number]), "turns": _turns(batch, tokenizer, own)}
        for number, (seed, own) in enumerate(zip(seeds, rows, strict=False))
    ]


def _turns(batch: Batch, tokenizer: Tokenizer, rows: Sequence[int]) -> list[list[Any]]:
    turns, before = [], ()
    for row in rows:
        prompt = batch.prompts[batch.prompt_of_row[row]]
        response = batch.responses[row, : batch.response_length[row]].tolist()
        said = response[:-1] if response[-1] == tokenizer.eos else response
        seen = len(before) if before and prompt[: len(before)] == before else 0
        observation = tokenizer.decode(list(prompt[seen:]))
        turns.append([observation, tokenizer.decode(said), round(float(batch.rewards[row]), 6)])
        before = (*prompt, *said, tokenizer.eos)
    return turns


# Evaluate the policy with replaced reasonings, to measure the effect of their content on success.
#
# In every turn the policy responds as usual. Then its reasoning is replaced, and the rest is generated anew after the
# prompt, the new reasoning and the closing think tag.
#
#     swapped   by the reasoning of another instance in the same turn, drawn at random (never its own if there are two)
#     blanked   by nothing
#
# Instances and random numbers are those of the ordinary evaluation; the number of a token depends on its position in
# the response alone. So replacing a reasoning by itself changes nothing. A turn whose think section does not close
# stays as it is, and its reasoning is given to no other.

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
