"""verl's side of an episode: its agent workers play the environments of `plat_envs` with the rollout engine.

Every row of a batch that `plat.trainer.verl.play` submits says which instance is played and at which temperature. The
random numbers of turn k are those of a seed that is a function of (the row's key, member of the group, k), so what is
drawn does not depend on when a request is served.
"""

from __future__ import annotations

import json
import traceback
from functools import lru_cache
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from plat.trainer.environments import make_environments
from plat.trainer.loop.randomness import generator
from plat.trainer.verl.composition import run_config
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.dialogue import Dialogue, dialogue_of
from plat.trainer.verl.episode import Episode, Limits, Sequence
from plat.trainer.verl.play import PLAY


class PlatAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Plays one episode. verl makes an object of this class for each."""

    def __init__(self, trainer_config: Any, server_manager: Any, tokenizer: Any, **unused: Any) -> None:
        # The base class would only make verl's own chat renderer, which knows no compact rendering.
        self.config = _run_config(trainer_config.config.plat)
        self.server_manager = server_manager
        self.dialogue = _dialogue(self.config.train.rendering, tokenizer)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        """The sequences of a row's episode; one that fails is handed over with its traceback, which the trainer
        raises."""
        play, member = json.loads(row[PLAY]), int(row["session_id"])
        environment = make_environments(self.config, play["split"], 1)[0]
        episode = Episode(self.dialogue, environment, self._limits(play["turns"]))
        step, failure = None, None
        try:
            episode.start(int(play["seed"]), member)
            while not episode.done:
                sampling = {
                    **sampling_params,
                    "temperature": play["temperature"],
                    "max_tokens": episode.limits.response_tokens,
                    "stop_token_ids": list(self.dialogue.stops),
                    "seed": _seed(play["key"], member, len(episode.turns)),
                }
                name = f"{row['uid']}-{member}"
                answer = await self.server_manager.generate(
                    request_id=name, prompt_ids=episode.tokens, sampling_params=sampling
                )
                step = answer.extra_fields.get("global_steps")
                episode.answer(list(answer.token_ids), list(answer.log_probs))
        except Exception:
            failure = traceback.format_exc()
        return _outputs(episode, step, failure)

    def _limits(self, turns: int) -> Limits:
        task, verl = self.config.task, self.config.verl
        return Limits(
            turns,
            task.response_tokens,
            verl.prompt_tokens,
            verl.observation_tokens,
            task.token_cost,
            self.config.train.context,
        )


def _outputs(episode: Episode, step: int | None, failure: str | None) -> list[AgentLoopOutput]:
    """An episode as verl stores it, a row for each sequence; the first row carries the record.

    Of one that failed there is a single row with one token, which counts for nothing.
    """
    record = episode.record() | {"failure": failure}
    stop = episode.dialogue.stops[0]
    sequences = episode.sequences if failure is None else [Sequence([stop], [stop], [0], [0.0])]
    return [
        AgentLoopOutput(
            prompt_ids=sequence.prompt,
            response_ids=sequence.response,
            response_mask=sequence.mask,
            response_logprobs=sequence.log_probs,
            reward_score=episode.total_reward,
            num_turns=2 * len(episode.turns),
            metrics=AgentLoopMetrics(),
            extra_fields={
                "plat": None if number else record,
                "min_global_steps": step,
                "max_global_steps": step,
                "reward_extra_info": {},
            },
        )
        for number, sequence in enumerate(sequences)
    ]


@lru_cache(maxsize=2)
def _run_config(text: str) -> VerlRunConfig:
    """The run's config, read once a process."""
    return run_config(text)


@lru_cache(maxsize=2)
def _dialogue(rendering: str, tokenizer: Any) -> Dialogue:
    """The dialogue of a tokenizer, made once a process."""
    return dialogue_of(rendering, tokenizer)


def _seed(key: Any, member: int, turn: int) -> int:
    """The seed of a response's random numbers."""
    return int(generator(*key, member, turn).integers(2**31))
