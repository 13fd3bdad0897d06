"""Episodes played through verl: what is submitted to its agent workers, and what comes back, as arrays.

verl keeps a batch in TransferQueue, one row for each trajectory under the key `<prompt>_<member>_0`. Here the rows are
read once, put in the order prompts, then members, and turned into `plat.trainer.loop.trajectories`, so that everything
that is measured is computed by the same code as in the embedded trainer. The tokens stay where they are.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import torch

from plat.errors import RunError
from plat.trainer.loop.randomness import Key
from plat.trainer.loop.trajectories import Trajectories

PLAY = "plat_play"  # the field of a row that says what is played, as JSON
Tokens = tuple[int, ...]


@dataclass(frozen=True)
class Play:
    """What is played: each of these instances of a split by a group of `group_size` trajectories.

    key           that of the random numbers; the number of the prompt is added to it
    temperature   of the sampling; 0: greedy
    turns         at most
    """

    split: str
    seeds: Sequence[int]
    group_size: int
    key: Key
    temperature: float
    turns: int


@dataclass(kw_only=True)
class Played(Trajectories):
    """A batch that was played. B rows, a row for each turn; N trajectories.

    keys, tags   (N,) of the trajectories in TransferQueue, as verl wants them
    prompts      (B,) all tokens that the policy saw before it answered in this turn
    reasonings   (B,) the tokens of the reasoning, empty where there is none
    log_probs    (B,) of the reasoning's tokens when they were drawn, summed
    starts       (B,) where the response begins among the tokens after the first prompt
    cut          (N,) whether an observation, or the prompt, was too long
    """

    keys: list[str]
    tags: list[dict[str, Any]]
    prompts: list[Tokens]
    reasonings: list[Tokens]
    log_probs: np.ndarray
    starts: np.ndarray
    cut: np.ndarray


def play(manager: Any, buffer: Any, play: Play, step: int, partition: str) -> Played:
    """Have verl's agent workers play, wait for all of it, and read what was played.

    manager, buffer   verl's AgentLoopManagerTQ and ReplayBuffer
    partition         train: the rows stay in TransferQueue until they are cleared; val: they are removed at once
    RunError with the worker's traceback when an episode failed.
    """
    import transfer_queue as tq
    from verl.utils import tensordict_utils as tu

    names = [uuid.uuid4().hex for _ in play.seeds]
    described = [
        json.dumps({
            "split": play.split,
            "seed": int(seed),
            "key": [*play.key, number],
            "temperature": play.temperature,
            "turns": play.turns,
        })
        for number, seed in enumerate(play.seeds)
    ]  # fmt: skip
    batch = tu.get_tensordict(
        {"uid": _objects(names), "index": _objects(list(range(len(names)))), PLAY: _objects(described)}
    )
    tu.assign_non_tensor_data(batch, "global_steps", step)
    tu.assign_non_tensor_data(batch, "__rollout_n__", play.group_size)
    if partition == "val":
        tu.assign_non_tensor_data(batch, "validate", True)
    waiting = [{"is_prompt": True, "status": "pending", "global_steps": step} for _ in names]
    tq.kv_batch_put(keys=names, partition_id=partition, tags=waiting)
    manager.generate_sequences(batch)
    done, _ = buffer.sample(global_steps=step, partition_id=partition, batch_size=len(names))
    played = _read(done, names, play.group_size)
    if partition == "val":
        tq.kv_clear(keys=done.keys, partition_id=partition)
    return played


def _objects(values: list[Any]) -> np.ndarray:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def _read(done: Any, names: list[str], group_size: int) -> Played:
    """The rows of a finished batch in the order of prompts and members."""
    import transfer_queue as tq

    tags = dict(zip(done.keys, done.tags, strict=True))
    keys = [f"{name}_{member}_0" for name in names for member in range(group_size)]
    missing = [key for key in keys if key not in tags]
    if missing:
        raise RunError(
            f"{len(missing)} of {len(keys)} episodes did not come back from verl's agent workers",
            mend="the attempt's log.txt has what the workers said",
        )
    data = tq.kv_batch_get(
        keys=keys,
        partition_id=done.partition_id,
        select_fields=["prompts", "responses", "rollout_log_probs", "extra_fields"],
    )
    records = [getattr(entry, "data", entry)["plat"] for entry in list(data["extra_fields"])]
    for record in records:
        if record["failure"]:
            raise RunError(f"an episode failed in an agent worker:\n{record['failure']}")
    prompts, responses, scores = (list(data[name].unbind()) for name in ("prompts", "responses", "rollout_log_probs"))
    return assemble(keys, [tags[key] for key in keys], records, prompts, responses, scores, group_size)


def assemble(
    keys: list[str],
    tags: list[dict[str, Any]],
    records: list[dict[str, Any]],
    prompts: list[torch.Tensor],
    responses: list[torch.Tensor],
    scores: list[torch.Tensor],
    group_size: int,
) -> Played:
    """Arrays of trajectories whose records are those of `Episode.record`; tokens and log-probabilities as stored."""
    rows = [(number, turn) for number, record in enumerate(records) for turn in range(len(record["turns"]))]
    turns = [records[number]["turns"][turn] for number, turn in rows]
    lengths = np.array([turn["length"] for turn in turns])
    sampled = np.zeros((len(rows), int(lengths.max(initial=1))), dtype=np.float32)
    seen, reasonings, log_probs = [], [], []
    for row, ((number, _), turn) in enumerate(zip(rows, turns, strict=True)):
        start, said = turn["start"], responses[number].tolist()
        drawn = scores[number][start : start + turn["length"]].numpy()
        sampled[row, : turn["length"]] = -drawn
        reasoning = max(0, turn["reasoning_length"])
        seen.append((*prompts[number].tolist(), *said[:start]))
        reasonings.append(tuple(said[start : start + reasoning]))
        log_probs.append(float(drawn[:reasoning].astype(np.float64).sum()))

    def column(name: str, kind: Any) -> np.ndarray:
        return np.array([turn[name] for turn in turns], dtype=kind)

    return Played(
        keys=keys,
        tags=tags,
        prompts=seen,
        reasonings=reasonings,
        log_probs=np.array(log_probs),
        starts=column("start", np.int64),
        cut=np.array([record["cut"] for record in records]),
        trajectory_of_row=np.array([number for number, _ in rows]),
        turn_of_row=np.array([turn for _, turn in rows]),
        response_length=lengths,
        reasoning_length=column("reasoning_length", np.int64),
        # What a token was expected to say is not known of every engine; what it said estimates it without bias.
        entropies=sampled,
        rewards=column("reward", np.float64),
        group=np.arange(len(records)) // group_size,
        success=np.array([record["success"] for record in records]),
        format_valid=column("format_valid", np.bool_),
        reasoning_level=column("reasoning_level", np.int64),
        actions=column("actions", np.int64),
        moves=column("moves", np.int64),
    )


def token_rewards(played: Played, width: int) -> torch.Tensor:
    """(N, width) float64: the reward of each turn at the last token of its response, in the response's coordinates."""
    rewards = torch.zeros(played.trajectories, width, dtype=torch.float64)
    last = torch.from_numpy(played.starts + played.response_length - 1)
    rewards[torch.from_numpy(played.trajectory_of_row), last] = torch.from_numpy(played.rewards)
    return rewards


def joined(parts: list[Played]) -> Played:
    """Several batches as one; groups and trajectories are numbered on."""
    if len(parts) == 1:
        return parts[0]
    width = max(part.entropies.shape[1] for part in parts)
    trajectories = np.cumsum([0, *(part.trajectories for part in parts)])
    groups = np.cumsum([0, *(int(part.group.max(initial=-1)) + 1 for part in parts)])
    together: dict[str, Any] = {}
    for name in Played.__dataclass_fields__:
        values = [getattr(part, name) for part in parts]
        if name == "trajectory_of_row":
            values = [value + first for value, first in zip(values, trajectories, strict=False)]
        elif name == "group":
            values = [value + first for value, first in zip(values, groups, strict=False)]
        elif name == "entropies":
            values = [np.pad(value, ((0, 0), (0, width - value.shape[1]))) for value in values]
        together[name] = list(chain(*values)) if isinstance(values[0], list) else np.concatenate(values)
    return Played(**together)


def chosen(played: Played, trajectories: np.ndarray) -> Played:
    """The batch of these trajectories only, renumbered in the order given."""
    number = np.full(played.trajectories, -1)
    number[trajectories] = np.arange(len(trajectories))
    rows = np.flatnonzero(number[played.trajectory_of_row] >= 0)
    rows = rows[np.lexsort((played.turn_of_row[rows], number[played.trajectory_of_row[rows]]))]
    picked: dict[str, Any] = {}
    for name in Played.__dataclass_fields__:
        value = getattr(played, name)
        index = trajectories if name in ("keys", "tags", "group", "success", "cut") else rows
        picked[name] = [value[at] for at in index] if isinstance(value, list) else value[index]
    picked["trajectory_of_row"] = number[picked["trajectory_of_row"]]
    return Played(**picked)
