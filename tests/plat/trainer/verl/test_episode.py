"""An episode of verl's is the embedded trainer's trajectory in full context, token by token."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from plat.trainer.embedded.batch import Batch
from plat.trainer.environments import make_environments
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.dialogue import ChatDialogue, WordDialogue
from plat.trainer.verl.episode import Episode, Limits
from plat.trainer.verl.play import Played, assemble, chosen, joined, token_rewards

LIMITS = Limits(5, 24, 200, 200)


def replayed(batch: Batch, config: VerlRunConfig, seeds: list[int], noises: list[int]) -> list[Episode]:
    """The trajectories of an embedded batch, played again from their responses."""
    episodes = []
    for number, environment in enumerate(make_environments(config, "train", batch.trajectories)):
        episode = Episode(WordDialogue(), environment, LIMITS)
        episode.start(seeds[number], noises[number])
        for row in np.flatnonzero(batch.trajectory_of_row == number):
            assert tuple(episode.tokens) == batch.prompts[batch.prompt_of_row[row]]
            length = batch.response_length[row]
            episode.answer(batch.responses[row, :length].tolist(), batch.log_probs[row, :length].tolist())
        assert episode.done
        episodes.append(episode)
    return episodes


def played(episodes: list[Episode], size: int) -> Played:
    def tensors(name: str) -> list[torch.Tensor]:
        return [torch.tensor(getattr(episode, name)) for episode in episodes]

    keys = [f"p{number // size}_{number % size}_0" for number in range(len(episodes))]
    records = [episode.record() for episode in episodes]
    tags: list[dict[str, Any]] = [{} for _ in keys]
    return assemble(keys, tags, records, tensors("prompt"), tensors("response"), tensors("log_probs"), size)


def pair(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch], groups: int = 2, **options: Any
) -> tuple[Batch, Played, list[Episode]]:
    """The same episodes as the embedded trainer's arrays and as ours."""
    config = make_config("task=sokoban")
    seeds = [11 + number // 3 for number in range(groups * 3)]
    batch = play(config, groups=groups, size=3, seeds=seeds, **options)
    episodes = replayed(batch, config, seeds, [number % 3 for number in range(groups * 3)])
    return batch, played(episodes, 3), episodes


def test_the_arrays_are_those_of_the_embedded_trainer(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch]
) -> None:
    batch, ours, _ = pair(make_config, play)
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


def test_only_what_the_policy_said_is_learnt_from_and_rewarded(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch]
) -> None:
    batch, ours, episodes = pair(make_config, play)
    rewards = token_rewards(ours, max(len(episode.response) for episode in episodes))
    assert np.allclose(rewards.sum(1).numpy(), batch.returns)
    for number, episode in enumerate(episodes):
        assert episode.mask[-1] == 1, "an episode ends with a token of the policy, which may be rewarded"
        assert len(episode.mask) == len(episode.response) == len(episode.log_probs)
        assert sum(episode.mask) == batch.response_length[batch.trajectory_of_row == number].sum()
        rewarded = torch.nonzero(rewards[number])[:, 0].tolist()
        assert all(episode.mask[place] for place in rewarded)


def test_a_batch_is_cut_and_joined_by_whole_trajectories(
    make_config: Callable[..., VerlRunConfig], play: Callable[..., Batch]
) -> None:
    batch, ours, _ = pair(make_config, play, groups=3)
    order = np.array([6, 7, 8, 0, 1, 2])
    selected, expected = chosen(ours, order), batch.select(order)
    assert np.array_equal(selected.rewards, expected.rewards) and selected.keys == [ours.keys[at] for at in order]
    assert np.array_equal(selected.trajectory_of_row, expected.trajectory_of_row)
    together = joined([chosen(ours, np.arange(3)), chosen(ours, np.arange(3, 9))])
    assert np.array_equal(together.rewards, ours.rewards) and together.prompts == ours.prompts
    assert np.array_equal(together.trajectory_of_row, ours.trajectory_of_row)
    assert len(set(together.group.tolist())) == 3 + 0 * len(ours.group)


def test_a_response_without_an_end_gets_one_that_is_not_learnt_from(make_config: Callable[..., VerlRunConfig]) -> None:
    config = make_config("task=sokoban")
    dialogue = WordDialogue()
    episode = Episode(dialogue, make_environments(config, "train", 1)[0], LIMITS)
    episode.start(3, 0)
    episode.answer([7, 8, 9], [-1.0, -1.0, -1.0])
    assert episode.response[:4] == [7, 8, 9, dialogue.stops[0]] and episode.mask[:4] == [1, 1, 1, 0]


def test_an_observation_that_is_too_long_ends_the_episode(make_config: Callable[..., VerlRunConfig]) -> None:
    config = make_config("task=sokoban")
    episode = Episode(WordDialogue(), make_environments(config, "train", 1)[0], Limits(5, 24, 200, 3))
    episode.start(3, 0)
    episode.answer([7, 8], [-1.0, -1.0])
    assert episode.done and episode.cut and episode.mask == [1, 1]


def test_an_episode_in_natural_language(
    make_config: Callable[..., VerlRunConfig], chat_tokenizer: Callable[[str], Any]
) -> None:
    config = make_config("task=sokoban")
    config.train.rendering = "chat"
    tokenizer = chat_tokenizer("qwen")
    dialogue = ChatDialogue(tokenizer)
    episode = Episode(dialogue, make_environments(config, "train", 1)[0], Limits(5, 400, 2000, 2000))
    episode.start(3, 0)
    assert tokenizer.decode(episode.prompt).endswith("<|im_start|>assistant\n<think>")
    said = tokenizer.encode("the box is near </think> <answer> up </answer>", add_special_tokens=False)
    episode.answer([*said, dialogue.stops[0]], [-0.5] * (len(said) + 1))
    turn = episode.turns[0]
    assert turn.format_valid and turn.length == len(said) + 1
    assert tokenizer.decode(episode.response[: turn.reasoning_length]) == "the box is near "
    assert tokenizer.decode(episode.tokens).count("<think>") == 2 + episode.environment.instructions.count(
        "<think>"
    ) + (tokenizer.decode(episode.tokens).count("Always output: <think>"))
