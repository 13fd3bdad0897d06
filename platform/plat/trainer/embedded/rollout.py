"""Batched multi-turn rollouts with a KV cache: N environments speak with one policy, turn by turn.

Randomness: token t of turn k of trajectory n is drawn with one uniform number that depends on (seed, k, t, n) alone, so
a trajectory does not change when another one ends earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from plat.trainer.embedded.batch import Batch, pad_prompts
from plat.trainer.embedded.decoder import Decoder
from plat.trainer.embedded.layers import at_least_float32
from plat.trainer.embedded.model import Weights, encode
from plat.trainer.embedded.tokenizer import Tokenizer
from plat_envs.vocabulary import END_THINK


def generator_for(*key: int) -> torch.Generator:
    """A generator that is a function of the key alone."""
    state = np.random.SeedSequence(key).generate_state(2, np.uint32)
    return torch.Generator().manual_seed(int(state[0]) << 32 | int(state[1]))


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


def _responses(drawn: torch.Tensor, log_probs: torch.Tensor, entropies: torch.Tensor, tokenizer: Tokenizer) -> Any:
    """What `generate` returns, from (B, R) arrays in which anything may follow the first eos."""
    stops = (drawn == tokenizer.eos).cumsum(1)
    alive = (stops == 0) | ((stops == 1) & (drawn == tokenizer.eos))
    outputs = torch.where(alive, drawn, tokenizer.pad), alive.sum(1), log_probs * alive, entropies * alive
    return tuple(each.cpu().numpy() for each in outputs)


def rollout(
    weights: Weights,
    tokenizer: Tokenizer,
    environments: Sequence[Any],
    seeds: Sequence[int],
    noises: Sequence[int],
    group: np.ndarray,
    *,
    turns: int,
    tokens: int,
    temperature: float,
    key: tuple[int, ...],
    context: str = "current",
) -> Batch:
    """One trajectory per environment: environments[n] plays instance seeds[n] with chance noises[n], at most `turns`
    turns of `tokens` tokens each."""
    count = len(seeds)
    histories: list[tuple[int, ...]] = [
        tuple(tokenizer.prompt(environment.reset(seed, noise), environment.instructions))
        for environment, seed, noise in zip(environments, seeds, noises, strict=True)
    ]
    active = np.arange(count)
    index: dict[tuple[int, ...], int] = {}
    success = np.zeros(count, dtype=bool)
    waves: list[dict[str, np.ndarray]] = []
    for turn in range(turns):
        uniforms = torch.rand(tokens, count, generator=generator_for(*key, turn))[:, torch.from_numpy(active)]
        numbers = np.array([index.setdefault(histories[n], len(index)) for n in active])
        here, rows = np.unique(numbers, return_inverse=True)
        known = list(index)
        ids, lengths, log_probs, entropies = generate(
            weights, tokenizer, [known[number] for number in here], rows, uniforms, temperature
        )
        rewards = np.zeros(len(active))
        valid = np.zeros(len(active), dtype=bool)
        parses = np.zeros(len(active), dtype=bool)
        reasoning = np.full(len(active), -1)
        done = np.zeros(len(active), dtype=bool)
        for at, n in enumerate(active.tolist()):
            response = ids[at, : lengths[at]].tolist()
            body = response[:-1] if response[-1] == tokenizer.eos else response
            text = tokenizer.decode(body)
            reasoning[at] = tokenizer.reasoning_tokens(body)
            thought = text.partition(END_THINK)[0].strip()
            parses[at] = reasoning[at] >= 0 and environments[n].reasoning_parses(thought)
            observation, rewards[at], done[at], info = environments[n].step(text)
            valid[at] = info["format_valid"]
            success[n] = info["success"]
            if not done[at]:
                if context == "full":
                    closed = response if response[-1] == tokenizer.eos else [*response, tokenizer.eos]
                    histories[n] = (*histories[n], *closed, *tokenizer.following(observation))
                else:
                    histories[n] = tuple(tokenizer.prompt(observation, environments[n].instructions))
        waves.append(
            {
                "prompt": numbers,
                "trajectory": active,
                "turn": np.full(len(active), turn),
                "ids": ids,
                "length": lengths,
                "reasoning": reasoning,
                "log_prob": log_probs,
                "entropy": entropies,
                "reward": rewards,
                "valid": valid,
                "parses": parses,
            }
        )
        active = active[~done]
        if not len(active):
            break
    width = max(wave["ids"].shape[1] for wave in waves)

    def gather(name: str) -> np.ndarray:
        arrays = [wave[name] for wave in waves]
        if arrays[0].ndim == 2:
            arrays = [np.pad(array, ((0, 0), (0, width - array.shape[1]))) for array in arrays]
        return np.concatenate(arrays)

    order = np.lexsort((gather("turn"), gather("trajectory")))
    return Batch(
        prompts=list(index),
        prompt_of_row=gather("prompt")[order],
        trajectory_of_row=gather("trajectory")[order],
        turn_of_row=gather("turn")[order],
        responses=gather("ids")[order],
        response_length=gather("length")[order],
        reasoning_length=gather("reasoning")[order],
        log_probs=gather("log_prob")[order],
        entropies=gather("entropy")[order],
        rewards=gather("reward")[order],
        group=group,
        success=success,
        format_valid=gather("valid")[order],
        reasoning_parses=gather("parses")[order],
    )
