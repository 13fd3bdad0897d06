"""Batched multi-turn rollouts with a KV cache: one policy plays N episodes at once, turn by turn.

Token t of turn k of trajectory n is drawn with one uniform number that is a function of (key, k, n, t) alone: a
trajectory changes neither when another one ends earlier nor when there are more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.generate import generate
from plat.trainer.embedded.transformer.model import Weights
from plat.trainer.embedded.transformer.tokenizer import Tokenizer
from plat.trainer.loop.randomness import Key, uniforms
from plat_envs.api import LEVELS, Environment
from plat_envs.vocabulary import END_THINK


@dataclass(frozen=True)
class Sampling:
    """How a policy speaks: at most `turns` turns of at most `tokens` tokens, drawn at `temperature` (0: greedy).

    context     current: each turn's prompt is the state alone; full: it is everything that was said before
    token_cost  what each token of a response takes from the reward of its turn, eos included
    """

    turns: int
    tokens: int
    temperature: float
    context: str = "current"
    token_cost: float = 0.0


@dataclass(frozen=True)
class Episodes:
    """What is played: trajectory n is instance seeds[n] in environments[n], with the chance of the game noises[n].

    Trajectories of one group are neighbours; groups (N,) numbers them.
    """

    environments: Sequence[Environment]
    seeds: Sequence[int]
    noises: Sequence[int]
    groups: np.ndarray


@dataclass(frozen=True)
class Turn:
    """What all trajectories that go on say in a turn: prompts and responses as token ids, eos included.

    chances   (rows, tokens) the numbers that decide what is drawn
    """

    prompts: list[tuple[int, ...]]
    responses: list[list[int]]
    chances: np.ndarray


Rewrite = Callable[[int, Turn], list[list[int]]]  # (number of the turn from 0, what is said) -> what is said instead


def rollout(
    weights: Weights,
    tokenizer: Tokenizer,
    episodes: Episodes,
    sampling: Sampling,
    key: Key,
    rewrite: Rewrite | None = None,
) -> Batch:
    """Play every episode to its end: in each turn, all trajectories that go on speak at once.

    `key` is that of the random numbers (`randomness.uniforms`). `rewrite` may change what was said before it is played;
    such a batch has no log-probabilities and entropies.
    """
    trajectories = [
        _Trajectory(tokenizer, environment, seed, noise, sampling)
        for environment, seed, noise in zip(episodes.environments, episodes.seeds, episodes.noises, strict=True)
    ]
    prompts: dict[tuple[int, ...], int] = {}  # each distinct prompt, and its number
    active = np.arange(len(trajectories))
    turns: list[dict[str, np.ndarray]] = []
    for turn in range(sampling.turns):
        prompt = np.array([prompts.setdefault(trajectories[n].prompt, len(prompts)) for n in active])
        chances = uniforms(key, turn, len(trajectories), sampling.tokens)[active]
        spoken = _speak(weights, tokenizer, list(prompts), prompt, chances, sampling.temperature)
        if rewrite is not None:
            cut = zip(spoken["responses"], spoken["response_length"], strict=True)
            said = Turn(
                [trajectories[n].prompt for n in active], [ids[:length].tolist() for ids, length in cut], chances
            )
            spoken = _as_spoken(rewrite(turn, said), tokenizer.pad)
        steps = [
            trajectories[n].step(ids[:length].tolist())
            for n, ids, length in zip(active, spoken["responses"], spoken["response_length"], strict=True)
        ]
        columns = {name: np.array(values) for name, values in zip(_Step._fields, zip(*steps, strict=True), strict=True)}
        done = columns.pop("done")
        where = {"prompt_of_row": prompt, "trajectory_of_row": active, "turn_of_row": np.full(len(active), turn)}
        turns.append({**where, **spoken, **columns})
        active = active[~done]
        if not active.size:
            break
    success = np.array([trajectory.success for trajectory in trajectories])
    return Batch(prompts=list(prompts), group=episodes.groups, success=success, **_rows(turns))


class _Step(NamedTuple):
    """What a response brought about, by the names of `Batch`."""

    reasoning_length: int
    reasoning_level: int
    rewards: float
    format_valid: bool
    actions: int
    moves: int
    done: bool


class _Trajectory:
    """One episode while it is played; `prompt` is what the policy answers next."""

    def __init__(
        self, tokenizer: Tokenizer, environment: Environment, seed: int, noise: int, sampling: Sampling
    ) -> None:
        self.tokenizer, self.environment, self.sampling = tokenizer, environment, sampling
        self.prompt = tuple(tokenizer.prompt(environment.reset(seed, noise), environment.instructions))
        self.success = False

    def step(self, response: list[int]) -> _Step:
        """Play a response, token ids with eos where the policy ended it, and put the next prompt together."""
        body = response[:-1] if response[-1] == self.tokenizer.eos else response
        text = self.tokenizer.decode(body)
        reasoning_length = self.tokenizer.reasoning_tokens(body)
        reasoning = text.partition(END_THINK)[0].strip()
        level = self.environment.reasoning_level(reasoning) if reasoning_length >= 0 else None
        observation, reward, done, info = self.environment.step(text)
        self.success = bool(info["success"])
        valid = bool(info["format_valid"])
        if not done:
            self.prompt = self._next_prompt(body, observation)
        return _Step(
            reasoning_length,
            -1 if level is None else LEVELS.index(level),
            float(reward) - self.sampling.token_cost * len(response),
            valid,
            int(info.get("actions", valid)),
            int(info.get("moves", valid)),
            done,
        )

    def _next_prompt(self, body: list[int], observation: str) -> tuple[int, ...]:
        if self.sampling.context == "full":
            return (*self.prompt, *body, self.tokenizer.eos, *self.tokenizer.following(observation))
        return tuple(self.tokenizer.prompt(observation, self.environment.instructions))


def _speak(
    weights: Weights,
    tokenizer: Tokenizer,
    prompts: list[tuple[int, ...]],
    prompt_of_row: np.ndarray,
    chances: np.ndarray,
    temperature: float,
) -> dict[str, np.ndarray]:
    """One response to each row's prompt, by the names of `Batch`; `chances` (B, tokens) decide what is drawn."""
    used, rows = np.unique(prompt_of_row, return_inverse=True)
    drawn = torch.from_numpy(np.ascontiguousarray(chances.T))
    ids, lengths, log_probs, entropies = generate(
        weights, tokenizer, [prompts[number] for number in used], rows, drawn, temperature
    )
    return {"responses": ids, "response_length": lengths, "log_probs": log_probs, "entropies": entropies}


def _as_spoken(responses: list[list[int]], pad: int) -> dict[str, np.ndarray]:
    """Responses by the names of `Batch`, without log-probabilities and entropies."""
    lengths = np.array([len(response) for response in responses])
    ids = np.full((len(responses), lengths.max()), pad)
    for row, response in enumerate(responses):
        ids[row, : len(response)] = response
    nothing = np.zeros(ids.shape, dtype=np.float32)
    return {"responses": ids, "response_length": lengths, "log_probs": nothing, "entropies": nothing}


def _rows(turns: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """The rows of all turns together, sorted by trajectory, then turn; responses padded to the longest."""
    width = max(turn["responses"].shape[1] for turn in turns)
    gathered = {}
    for name in turns[0]:
        arrays = [turn[name] for turn in turns]
        if arrays[0].ndim == 2:
            arrays = [np.pad(array, ((0, 0), (0, width - array.shape[1]))) for array in arrays]
        gathered[name] = np.concatenate(arrays)
    order = np.lexsort((gathered["turn_of_row"], gathered["trajectory_of_row"]))
    return {name: array[order] for name, array in gathered.items()}
