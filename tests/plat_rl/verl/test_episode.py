"""An episode of verl's is the embedded trainer's trajectory, token by token, in either context."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from plat.errors import RunError
from plat_rl.embedded.batch import Batch
from plat_rl.embedded.transformer.tokenizer import WordTokenizer
from plat_rl.environments import make_environments
from plat_rl.verl.rollouts.play import Played, assemble, chosen, joined
from plat_rl.verl.rollouts.verl_episode import ChatDialogue, Episode, Limits
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.update.batches import targets

LIMITS = Limits(5, 24, 200, 200)
CONTEXTS = pytest.mark.parametrize("context", ["full", "current"])


def replayed(batch: Batch, config: VerlRunConfig, seeds: list[int], noises: list[int]) -> list[Episode]:
    """The trajectories of an embedded batch, played again from their responses."""
    episodes = []
    for number, environment in enumerate(make_environments(config, "train", batch.trajectories)):
        episode = Episode(WordTokenizer(), environment, replace(LIMITS, context=config.train.context))
        episode.begin(seeds[number], noises[number])
        for row in np.flatnonzero(batch.trajectory_of_row == number):
            assert tuple(episode.tokens) == batch.prompts[batch.prompt_of_row[row]]
            length = batch.response_length[row]
            episode.respond(batch.responses[row, :length].tolist(), batch.log_probs[row, :length].tolist())
        assert episode.done
        episodes.append(episode)
    return episodes


def played(episodes: list[Episode], size: int) -> Played:
    def tensors(name: str) -> list[torch.Tensor]:
        return [torch.tensor(getattr(sequence, name)) for episode in episodes for sequence in episode.sequences]

    keys = [
        f"p{number // size}_{number % size}_{sequence}"
        for number, episode in enumerate(episodes)
        for sequence in range(len(episode.sequences))
    ]
    records = [episode.record() for episode in episodes]
    tags: list[dict[str, Any]] = [{} for _ in keys]
    return assemble(keys, tags, records, tensors("prompt"), tensors("response"), tensors("log_probs"), size)


def pair(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch], context: str, groups: int = 2
) -> tuple[Batch, Played, list[Episode]]:
    """The same episodes as the embedded trainer's arrays and as ours."""
    config = make_config("task=sokoban", f"train.context={context}")
    seeds = [11 + number // 3 for number in range(groups * 3)]
    batch = play(config, groups=groups, size=3, seeds=seeds)
    episodes = replayed(batch, config, seeds, [number % 3 for number in range(groups * 3)])
    return batch, played(episodes, 3), episodes


@CONTEXTS
def test_the_arrays_are_those_of_the_embedded_trainer(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch], context: str
) -> None:
    batch, ours, _ = pair(make_config, play, context)
    same = ("trajectory_of_row", "turn_of_row", "response_length", "reasoning_length", "rewards", "group", "success",
            "format_valid", "reasoning_level", "actions", "moves")  # fmt: skip
    for name in same:
        assert np.array_equal(getattr(ours, name), getattr(batch, name)), name
    assert ours.prompts == [batch.prompts[number] for number in batch.prompt_of_row]
    for row, reasoning in enumerate(ours.reasonings):
        count = max(0, int(batch.reasoning_length[row]))
        assert reasoning == tuple(batch.responses[row, :count])
        assert np.isclose(ours.log_probs[row], batch.log_probs[row, :count].sum(), rtol=1e-5)
    assert np.allclose(ours.entropies.sum(1), -(batch.log_probs * batch.token_mask).sum(1), rtol=1e-5)


@CONTEXTS
def test_only_what_the_policy_said_is_learnt_from_and_rewarded(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch], context: str
) -> None:
    batch, ours, episodes = pair(make_config, play, context)
    sequences = [sequence for episode in episodes for sequence in episode.sequences]
    expected = len(batch.turn_of_row) if context == "current" else batch.trajectories
    assert len(sequences) == len(ours.keys) == expected
    for sequence in sequences:
        assert sequence.mask[-1] == 1, "a sequence ends with a token of the policy, which may be rewarded"
        assert len(sequence.mask) == len(sequence.response) == len(sequence.log_probs)
        assert context == "full" or all(sequence.mask)
    for number, episode in enumerate(episodes):
        said = sum(sum(sequence.mask) for sequence in episode.sequences)
        assert said == batch.response_length[batch.trajectory_of_row == number].sum()


@CONTEXTS
def test_what_is_learnt_lies_at_the_tokens_of_the_policy(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch], context: str
) -> None:
    _, ours, episodes = pair(make_config, play, context)
    masks = [torch.tensor(sequence.mask) for episode in episodes for sequence in episode.sequences]
    mask = torch.nn.utils.rnn.pad_sequence(masks, batch_first=True)
    values = torch.rand(mask.shape, generator=torch.Generator().manual_seed(0))
    config = make_config("algorithm=ppo", f"train.context={context}", "algorithm.loss_agg=seq-mean-token-mean")
    learnt = targets(config, ours, ours.trajectory_of_sequence, mask, values)
    # With gamma = lam = 1 the return of a token is the sum of the rewards from its turn on.
    for number in range(ours.trajectories):
        rows = np.flatnonzero(ours.trajectory_of_row == number)
        to_go = np.cumsum(ours.rewards[rows][::-1])[::-1]
        own = ours.trajectory_of_sequence == number
        said = learnt["returns"][own][mask[own] == 1].numpy()
        assert np.allclose(said, np.repeat(to_go, ours.response_length[rows]), atol=1e-5)
    for values_of_tokens in learnt.values():
        assert (values_of_tokens[mask == 0] == 0).all()
    assert ("plat_loss_weight" in learnt) == (context == "current")
    if context == "current":
        sums = np.bincount(ours.trajectory_of_sequence, weights=learnt["plat_loss_weight"].sum(1).numpy())
        assert np.allclose(sums, 1)


def test_tokens_that_were_not_played_are_refused(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch]
) -> None:
    _, ours, _ = pair(make_config, play, "current")
    mask = torch.ones(len(ours.keys), 30, dtype=torch.int64)
    with pytest.raises(RunError, match="not those that were played"):
        targets(make_config("algorithm=grpo"), ours, ours.trajectory_of_sequence, mask, None)


@CONTEXTS
def test_a_batch_is_cut_and_joined_by_whole_trajectories(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch], context: str
) -> None:
    batch, ours, _ = pair(make_config, play, context, groups=3)
    order = np.array([6, 7, 8, 0, 1, 2])
    selected, expected = chosen(ours, order), batch.select(order)
    assert np.array_equal(selected.rewards, expected.rewards)
    assert {key.rsplit("_", 1)[0] for key in selected.keys} == {f"p{g}_{m}" for g in (0, 2) for m in range(3)}
    assert sorted(selected.keys + ours.keys_of_others(order)) == sorted(ours.keys)
    names = [f"p{number // 3}_{number % 3}" for number in order]
    assert [names[number] for number in selected.trajectory_of_sequence] == [k.rsplit("_", 1)[0] for k in selected.keys]
    assert np.array_equal(selected.trajectory_of_row, expected.trajectory_of_row)
    together = joined([chosen(ours, np.arange(3)), chosen(ours, np.arange(3, 9))])
    assert np.array_equal(together.rewards, ours.rewards) and together.prompts == ours.prompts
    assert np.array_equal(together.trajectory_of_row, ours.trajectory_of_row)
    assert np.array_equal(together.trajectory_of_sequence, ours.trajectory_of_sequence) and together.keys == ours.keys
    assert len(set(together.group.tolist())) == 3 + 0 * len(ours.group)


def test_a_response_without_an_end_gets_one_that_is_not_learnt_from(make_config: Callable[..., VerlRunConfig]) -> None:
    config = make_config("task=sokoban")
    dialogue = WordTokenizer()
    episode = Episode(dialogue, make_environments(config, "train", 1)[0], LIMITS)
    episode.begin(3, 0)
    episode.respond([7, 8, 9], [-1.0, -1.0, -1.0])
    (sequence,) = episode.sequences
    assert sequence.response[:4] == [7, 8, 9, dialogue.stops[0]] and sequence.mask[:4] == [1, 1, 1, 0]


@pytest.mark.parametrize("limits", [Limits(5, 24, 200, 3), Limits(5, 24, 3, 200, context="current")])
def test_an_observation_that_is_too_long_ends_the_episode(
    make_config: Callable[..., VerlRunConfig], limits: Limits
) -> None:
    config = make_config("task=sokoban")
    episode = Episode(WordTokenizer(), make_environments(config, "train", 1)[0], limits)
    episode.begin(3, 0)
    episode.respond([7, 8], [-1.0, -1.0])
    assert episode.done and episode.cut and [sequence.mask for sequence in episode.sequences] == [[1, 1]]


def test_an_episode_in_natural_language(
    make_config: Callable[..., VerlRunConfig], chat_tokenizer: Callable[[str], Any]
) -> None:
    config = make_config("task=sokoban")
    config.train.rendering = "chat"
    tokenizer = chat_tokenizer("qwen")
    dialogue = ChatDialogue(tokenizer)
    episode = Episode(dialogue, make_environments(config, "train", 1)[0], Limits(5, 400, 2000, 2000))
    episode.begin(3, 0)
    assert tokenizer.decode(episode.sequences[0].prompt).endswith("<|im_start|>assistant\n<think>")
    said = tokenizer.encode("the box is near </think> <answer> up </answer>", add_special_tokens=False)
    episode.respond([*said, dialogue.stops[0]], [-0.5] * (len(said) + 1))
    turn = episode.turns[0]
    assert turn.effect.format_valid and turn.length == len(said) + 1
    assert tokenizer.decode(episode.sequences[0].response[: turn.effect.reasoning_length]) == "the box is near "
    assert tokenizer.decode(episode.tokens).count("<think>") == 2 + episode.environment.instructions.count(
        "<think>"
    ) + (tokenizer.decode(episode.tokens).count("Always output: <think>"))
