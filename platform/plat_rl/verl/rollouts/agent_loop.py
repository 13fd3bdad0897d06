"""verl's side of an episode: its agent workers play the environments of `plat_envs` with the rollout engine.

Every row of a batch that `plat_rl.verl.rollouts.play` submits says which instance is played and at which
temperature. The random numbers of turn k are those of a seed that is a function of (the row's key, member of the group,
k), so what is drawn does not depend on when a request is served.
"""

from __future__ import annotations

import asyncio
import json
import traceback
from functools import lru_cache
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput

from plat.errors import RunError
from plat_rl.environments import Sessions, environment_errors
from plat_rl.loop.randomness import generator
from plat_rl.verl.rollouts.play import PLAY
from plat_rl.verl.rollouts.verl_episode import Episode, Limits, Sequence, dialogue_of
from plat_rl.verl.settings.composition import run_config
from plat_rl.verl.vision.pictures import as_images, has_pictures

# Made once a process.
_run_config, _dialogue = lru_cache(maxsize=2)(run_config), lru_cache(maxsize=2)(dialogue_of)
_sessions = lru_cache(maxsize=2)(lambda text: Sessions(_run_config(text)))


class PlatAgentLoop(AgentLoopBase):  # type: ignore[misc]
    """Play one episode; verl makes an object for each."""

    def __init__(
        self, trainer_config: Any, server_manager: Any, tokenizer: Any, processor: Any = None, **unused: Any
    ) -> None:
        # The base class would only make verl's chat renderer, which has no compact rendering.
        self.config = _run_config(trainer_config.config.plat)
        self.sessions = _sessions(trainer_config.config.plat)
        self.server_manager = server_manager
        self.processor = processor if has_pictures(self.config.train.rendering) else None
        self.dialogue = _dialogue(self.config.train.rendering, tokenizer, processor)

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> list[AgentLoopOutput]:
        """Return the sequences of a row's episode.

        If the episode fails, return one sequence of one masked token, with the traceback in its record. Then `play` in
        the trainer's process raises RunError. An error while the environment is made is raised here.
        """
        play, member = json.loads(row[PLAY]), int(row["session_id"])
        task, verl = self.config.task, self.config.verl
        sizes = (task.response_tokens, verl.prompt_tokens, verl.observation_tokens)
        limits = Limits(play["turns"], *sizes, task.token_cost, self.config.train.context)
        step, failure = None, None
        with self.sessions.lease(play["split"], 1) as (environment,):
            episode = Episode(self.dialogue, environment, limits)
            try:
                with environment_errors():
                    step = await self._play(episode, play, member, sampling_params, f"{row['uid']}-{member}")
            except Exception as error:
                failure = {
                    "class": error.failure_class if isinstance(error, RunError) else "error",
                    "traceback": traceback.format_exc(),
                }
        return _outputs(episode, step, failure)

    async def _play(
        self, episode: Episode, play: dict[str, Any], member: int, sampling_params: dict[str, Any], name: str
    ) -> int | None:
        """Play an episode to its end, and return verl's number of the newest weights that answered."""
        step = None
        episode.begin(int(play["seed"]), member)
        while not episode.done:
            sampling = {
                **sampling_params,
                "temperature": play["temperature"],
                "max_tokens": episode.limits.response_tokens,
                "stop_token_ids": list(self.dialogue.stops),
                "seed": int(generator(*play["key"], member, len(episode.turns)).integers(2**31)),
            }
            images = as_images(episode.sequences[-1].images)
            pictures = {"image_data": images} if images else {}
            answer = await self.server_manager.generate(
                request_id=name, prompt_ids=episode.tokens, sampling_params=sampling, **pictures
            )
            step = answer.extra_fields.get("global_steps")
            if self.processor is not None and self.processor.image_token_id in answer.token_ids:
                raise RunError(
                    "the rollout engine drew the token of a picture",
                    where="verl.rollout",
                    fix="verl.rollout=vllm or hf: verl and plat forbid it there",
                )
            response = list(answer.token_ids), list(answer.log_probs)
            if self.sessions.concurrent:  # others go on while this one waits
                await asyncio.to_thread(episode.respond, *response)
            else:
                episode.respond(*response)
        return step


def _outputs(episode: Episode, step: int | None, failure: dict[str, str] | None) -> list[AgentLoopOutput]:
    """Return an episode as verl stores it, a row for each sequence; the first row has the record.

    A failed episode has a single row with one token, which is masked.
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
            multi_modal_data={"images": as_images(sequence.images)} if sequence.images else None,
            reward_score=sum(turn.effect.rewards for turn in episode.turns),
            num_turns=2 * len(episode.turns),
            metrics=AgentLoopMetrics(),
            extra_fields={
                "plat": None if number else record,
                **({"plat_images": sequence.images} if sequence.images else {}),
                "min_global_steps": step,
                "max_global_steps": step,
                "reward_extra_info": {},
            },
        )
        for number, sequence in enumerate(sequences)
    ]
