"""Batched multi-turn rollouts with a KV cache: one policy plays N episodes at once, turn by turn.

Token t of turn k of trajectory n is drawn with one uniform number that is a function of (key, k, n, t) alone: a
trajectory changes neither when another one ends earlier nor when there are more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from plat.trainer.embedded.batch import Batch, pad_prompts
from plat.trainer.embedded.randomness import Key, uniforms
from plat.trainer.embedded.transformer.decoder import Decoder
from plat.trainer.embedded.transformer.layers import at_least_float32
from plat.trainer.embedded.transformer.model import Weights, encode
from plat.trainer.embedded.transformer.tokenizer import Tokenizer
from plat_envs.api import LEVELS, Environment
from plat_envs.vocabulary import END_THINK


@torch.inference_mode()
def generate(
    weights: Weights,
    tokenizer: Tokenizer,
    prompts: list[tuple[int, ...]],
    rows: np.ndarray,
    uniforms: torch.Tensor,
    temperature: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """One response per row to prompts[rows[b]]; `uniforms` (tokens, B) decide what is drawn, at most `tokens` each.

    Returns ids (B, R) padded, lengths (B,) including eos, log-probabilities and entropies (B, R) under
    softmax(logits / temperature); at temperature 0 the likeliest token is taken, with certainty.
    """
    at_once = _ROWS_AT_ONCE if weights.embed.device.type == "cpu" else len(rows)
    parts = []
    for start in range(0, len(rows), at_once):
        part = slice(start, start + at_once)
        used, own = np.unique(rows[part], return_inverse=True)
        own_prompts = [prompts[number] for number in used]
        parts.append(_generate(weights, tokenizer, own_prompts, own, uniforms[:, part], temperature))
    ids, lengths, log_probs, entropies = zip(*parts, strict=True)
    return _below(ids, tokenizer.pad), np.concatenate(lengths), _below(log_probs, 0), _below(entropies, 0)


# Keys and values of so many rows of a small model stay in a core's cache; those of 256 and more do not.
_ROWS_AT_ONCE = 128


def _below(arrays: Sequence[np.ndarray], padding: int) -> np.ndarray:
    """Arrays (B, R) of several parts one below the other, padded to the longest R."""
    width = max(array.shape[1] for array in arrays)
    return np.concatenate(
        [np.pad(array, ((0, 0), (0, width - array.shape[1])), constant_values=padding) for array in arrays]
    )


def _generate(
    weights: Weights,
    tokenizer: Tokenizer,
    prompts: list[tuple[int, ...]],
    rows: np.ndarray,
    uniforms: torch.Tensor,
    temperature: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """`generate` for all rows at once."""
    device = weights.embed.device
    ids, lengths, last = pad_prompts(prompts, tokenizer.pad, str(device))
    where = torch.from_numpy(rows).to(device)
    decoder = Decoder(weights, encode(weights, ids, lengths), where, uniforms.shape[0])
    uniforms = uniforms.to(device)
    drawn = torch.full(uniforms.shape, tokenizer.pad, device=device)
    log_probs, entropies = torch.zeros_like(uniforms), torch.zeros_like(uniforms)
    token = last[where]
    active = torch.arange(len(rows), device=device)  # rows that are still decoded
    ended = torch.zeros_like(active, dtype=torch.bool)
    chances, steps, since = uniforms, [], 0
    for at in range(len(uniforms)):
        scores = at_least_float32(decoder.step(token))
        if temperature:
            steps.append(_draw(scores if temperature == 1 else scores / temperature, chances[at]))
        else:
            steps.append((scores.argmax(-1), scores.new_zeros(len(scores)), scores.new_zeros(len(scores))))
        token = steps[-1][0]
        ended |= token == tokenizer.eos
        left = len(active) - int(ended.sum())
        few = left <= _ENOUGH_LEFT * len(active)
        if few or at + 1 == len(uniforms):
            for array, values in zip((drawn, log_probs, entropies), zip(*steps, strict=True), strict=True):
                array[since : at + 1, active] = torch.stack(values).to(array.dtype)
            steps, since = [], at + 1
        if not left:
            break
        if few:
            keep = torch.nonzero(~ended)[:, 0]
            decoder.select(keep)
            active, token, ended, chances = active[keep], token[keep], ended[keep], chances[:, keep]
    return _responses(drawn[: at + 1].T, log_probs[: at + 1].T, entropies[: at + 1].T, tokenizer)


_ENOUGH_LEFT = 0.8  # share of rows still speaking at which the others are dropped, which takes a copy


def _draw(scores: torch.Tensor, uniforms: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Tokens drawn from softmax(scores (B, vocabulary)) by one uniform number each, their log-probs, the entropies."""
    probs = scores.softmax(-1)
    mass = probs.cumsum(-1)
    token = torch.searchsorted(mass, (uniforms * mass[:, -1])[:, None])
    log_prob = probs.gather(-1, token).clamp_min_(torch.finfo(probs.dtype).tiny).log_()
    # H = log Z - sum p s, and log Z = s - log p of any token
    entropy = scores.gather(-1, token).sub_(log_prob)[:, 0] - torch.linalg.vecdot(probs, scores)
    return token[:, 0], log_prob[:, 0], entropy


def _responses(
    drawn: torch.Tensor, log_probs: torch.Tensor, entropies: torch.Tensor, tokenizer: Tokenizer
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """What `generate` returns, from (B, R) arrays in which anything may follow the first eos."""
    stops = (drawn == tokenizer.eos).cumsum(1)
    alive = (stops == 0) | ((stops == 1) & (drawn == tokenizer.eos))
    outputs = torch.where(alive, drawn, tokenizer.pad), alive.sum(1), log_probs * alive, entropies * alive
    ids, lengths, masked_log_probs, masked_entropies = (output.cpu().numpy() for output in outputs)
    return ids, lengths, masked_log_probs, masked_entropies


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


def rollout(weights: Weights, tokenizer: Tokenizer, episodes: Episodes, sampling: Sampling, key: Key) -> Batch:
    """Play every episode to its end: in each turn, all trajectories that go on speak at once.

    `key` is that of the random numbers (`randomness.uniforms`).
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
