"""Batched multi-turn rollouts with a KV cache: one policy plays N episodes at once, turn by turn.

Token t of turn k of trajectory n is drawn with one uniform number that is a function of (key, k, n, t) alone: a
trajectory changes neither when another one ends earlier nor when there are more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from plat_envs.api import Environment
from plat_rl.embedded.batch import Batch
from plat_rl.embedded.generate import Responses, generate
from plat_rl.embedded.transformer.model import Weights
from plat_rl.embedded.transformer.tokenizer import Tokenizer
from plat_rl.loop.randomness import Key, uniforms
from plat_rl.loop.trajectory_table import stacked
from plat_rl.loop.turns import Effect, Turns

THREADS = 32  # that wait for the servers of concurrent environments


@dataclass(frozen=True)
class Sampling:
    """How responses are drawn: at most `turns` turns of at most `tokens` tokens, at `temperature` (0: greedy).

    context     current: each turn's prompt is the state alone; full: the whole history
    token_cost  subtracted from the reward of a turn for each token of its response, eos included
    """

    turns: int
    tokens: int
    temperature: float
    context: str = "current"
    token_cost: float = 0.0


@dataclass(frozen=True)
class Episodes:
    """N episodes: trajectory n plays instance seeds[n] in environments[n], whose own chance is noises[n].

    groups      (N,) the group of each trajectory; those of one group are neighbours
    concurrent  the environments may be used in several threads at once
    """

    environments: Sequence[Environment]
    seeds: Sequence[int]
    noises: Sequence[int]
    groups: np.ndarray
    concurrent: bool = False


@dataclass(frozen=True)
class Turn:
    """Prompts and responses of all active trajectories in a turn, as token ids, eos included.

    chances   (rows, tokens) the uniform numbers that decide the tokens
    """

    prompts: list[tuple[int, ...]]
    responses: list[list[int]]
    chances: np.ndarray


Rewrite = Callable[[int, Turn], list[list[int]]]  # (index of the turn, turn) -> its new responses


def rollout(
    weights: Weights,
    tokenizer: Tokenizer,
    episodes: Episodes,
    sampling: Sampling,
    key: Key,
    rewrite: Rewrite | None = None,
) -> Batch:
    """Play every episode to its end, or for `sampling.turns` turns; in each, all active trajectories respond at once.

    key       of the random numbers (`randomness.uniforms`)
    rewrite   may change responses before they are played; with it, all log-probabilities and entropies are 0
    """
    begin = partial(_Trajectory, tokenizer, sampling)
    trajectories = _each(episodes, begin, episodes.environments, episodes.seeds, episodes.noises)
    prompts: dict[tuple[int, ...], int] = {}  # each distinct prompt, and its number
    active = np.arange(len(trajectories))
    turns: list[dict[str, np.ndarray]] = []
    for turn in range(sampling.turns):
        prompt = np.array([prompts.setdefault(trajectories[n].prompt, len(prompts)) for n in active])
        chances = uniforms(key, turn, len(trajectories), sampling.tokens)[active]
        spoken = generate(weights, tokenizer, list(prompts), prompt, chances, sampling.temperature)
        lengths = zip(spoken.responses, spoken.response_length, strict=True)
        responses = [ids[:length].tolist() for ids, length in lengths]
        if rewrite is not None:
            responses = rewrite(turn, Turn([trajectories[n].prompt for n in active], responses, chances))
            spoken = _as_spoken(responses, tokenizer.pad)
        effects = _each(episodes, _Trajectory.step, [trajectories[n] for n in active], responses)
        columns = dict(zip(Effect._fields, map(np.array, zip(*effects, strict=True)), strict=True))
        where = {"prompt_of_row": prompt, "trajectory_of_row": active, "turn_of_row": np.full(len(active), turn)}
        turns.append({**where, **spoken._asdict(), **columns})
        active = np.array([n for n in active if not trajectories[n].done], dtype=active.dtype)
        if not active.size:
            break
    success = np.array([trajectory.success for trajectory in trajectories])
    return Batch(prompts=list(prompts), group=episodes.groups, success=success, **_rows(turns))


class _Trajectory(Turns):
    """One episode while it is played; `prompt` is answered next."""

    def __init__(
        self, tokenizer: Tokenizer, sampling: Sampling, environment: Environment, seed: int, noise: int
    ) -> None:
        super().__init__(tokenizer, environment, sampling.token_cost)
        self._whole_history = sampling.context == "full"
        self.prompt = tuple(self.start(seed, noise))

    def step(self, response: list[int]) -> Effect:
        """Play a response (token ids, with eos where the policy ended it) and build the next prompt."""
        effect = self.answer(response)
        if not self.done:
            history = (*self.prompt, *response) if self._whole_history else ()
            self.prompt = (*history, *(self.later_tokens() if self._whole_history else self.new_prompt()))
        return effect


def _each(episodes: Episodes, function: Callable[..., Any], *columns: Sequence[Any]) -> list[Any]:
    """Return the values of a function for each episode, in order; in threads where the environments allow it."""
    if not episodes.concurrent:
        # not `map`, which would take a StopIteration of an environment for the end of the episodes
        return [function(*values) for values in zip(*columns, strict=True)]
    with ThreadPoolExecutor(THREADS) as threads:
        return list(threads.map(function, *columns))


def _as_spoken(responses: list[list[int]], pad: int) -> Responses:
    """Return responses as arrays, with log-probabilities and entropies of 0."""
    lengths = np.array([len(response) for response in responses])
    ids = np.full((len(responses), lengths.max()), pad)
    for row, response in enumerate(responses):
        ids[row, : len(response)] = response
    nothing = np.zeros(ids.shape, dtype=np.float32)
    return Responses(ids, lengths, nothing, nothing)


def _rows(turns: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Join the rows of all turns, sorted by trajectory, then turn; responses are padded to the longest."""
    gathered = {name: stacked([turn[name] for turn in turns]) for name in turns[0]}
    order = np.lexsort((gathered["turn_of_row"], gathered["trajectory_of_row"]))
    return {name: array[order] for name, array in gathered.items()}
