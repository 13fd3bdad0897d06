"""Episodes played through verl: what is submitted to its agent workers, and what comes back, as arrays.

verl keeps a batch in TransferQueue, one row for each sequence (`plat.trainer.verl.episode`) under the key
`<prompt>_<member>_<sequence>`. Here the rows are read once, put in the order prompts, members, sequences, and turned
into `plat.trainer.loop.trajectories`, so that everything that is measured is computed by the same code as in the
embedded trainer. The tokens stay where they are.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import chain, count, takewhile
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
    """A batch that was played. B rows, a row for each turn; N trajectories of one sequence, or one for each turn; S
    sequences, sorted by trajectory, then turn.

    keys, tags               (S,) of the sequences in TransferQueue, as verl wants them
    trajectory_of_sequence   (S,)
    prompts                  (B,) all tokens that the policy saw before it answered in this turn
    reasonings               (B,) the tokens of the reasoning, empty where there is none
    log_probs                (B,) of the reasoning's tokens when they were drawn, summed
    cut                      (N,) whether an observation, or the prompt, was too long
    """

    keys: list[str]
    tags: list[dict[str, Any]]
    trajectory_of_sequence: np.ndarray
    prompts: list[Tokens]
    reasonings: list[Tokens]
    log_probs: np.ndarray
    cut: np.ndarray

    def keys_of_others(self, trajectories: np.ndarray) -> list[str]:
        """The keys of all sequences but those of these trajectories."""
        others = ~np.isin(self.trajectory_of_sequence, trajectories)
        return [self.keys[number] for number in np.flatnonzero(others)]


# What is not an array of rows.
OF_SEQUENCES, OF_TRAJECTORIES = ("keys", "tags", "trajectory_of_sequence"), ("group", "success", "cut")


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
    """The rows of a finished batch in the order of prompts, members and sequences."""
    import transfer_queue as tq

    tags = dict(zip(done.keys, done.tags, strict=True))
    episodes = [_keys_of_episode(f"{name}_{member}", tags) for name in names for member in range(group_size)]
    missing = sum(not keys for keys in episodes)
    if missing:
        raise RunError(
            f"{missing} of {len(episodes)} episodes did not come back from verl's agent workers",
            mend="the attempt's log.txt has what the workers said",
        )
    keys = list(chain(*episodes))
    data = tq.kv_batch_get(
        keys=keys,
        partition_id=done.partition_id,
        select_fields=["prompts", "responses", "rollout_log_probs", "extra_fields"],
    )
    entries = [getattr(entry, "data", entry)["plat"] for entry in list(data["extra_fields"])]
    records = [record for record in entries if record is not None]
    for record in records:
        if record["failure"]:
            raise RunError(f"an episode failed in an agent worker:\n{record['failure']}")
    if [record["sequences"] for record in records] != [len(keys) for keys in episodes]:
        raise RunError("a part of an episode did not come back from verl's agent workers")
    prompts, responses, scores = (list(data[name].unbind()) for name in ("prompts", "responses", "rollout_log_probs"))
    return assemble(keys, [tags[key] for key in keys], records, prompts, responses, scores, group_size)


def _keys_of_episode(name: str, stored: Container[str]) -> list[str]:
    """The keys `<name>_0`, `<name>_1`, .. up to the first that is not stored."""
    return list(takewhile(stored.__contains__, (f"{name}_{number}" for number in count())))


def assemble(
    keys: list[str],
    tags: list[dict[str, Any]],
    records: list[dict[str, Any]],
    prompts: list[torch.Tensor],
    responses: list[torch.Tensor],
    scores: list[torch.Tensor],
    group_size: int,
) -> Played:
    """Arrays of trajectories whose records (N,) are those of `Episode.record`; tokens and log-probabilities (S,) of
    their sequences as stored."""
    sequences = np.array([record["sequences"] for record in records])
    first_sequence = np.cumsum(sequences) - sequences
    rows = [(number, turn) for number, record in enumerate(records) for turn in range(len(record["turns"]))]
    turns = [records[number]["turns"][turn] for number, turn in rows]
    lengths = np.array([turn["length"] for turn in turns])
    sampled = np.zeros((len(rows), int(lengths.max(initial=1))), dtype=np.float32)
    seen, reasonings, log_probs = [], [], []
    for row, ((number, _), turn) in enumerate(zip(rows, turns, strict=True)):
        sequence, start = first_sequence[number] + turn["sequence"], turn["start"]
        response = responses[sequence].tolist()
        drawn = scores[sequence][start : start + turn["length"]].numpy()
        sampled[row, : turn["length"]] = -drawn
        reasoning = max(0, turn["reasoning_length"])
        seen.append((*prompts[sequence].tolist(), *response[:start]))
        reasonings.append(tuple(response[start : start + reasoning]))
        log_probs.append(float(drawn[:reasoning].astype(np.float64).sum()))

    def column(name: str, kind: Any) -> np.ndarray:
        return np.array([turn[name] for turn in turns], dtype=kind)

    return Played(
        keys=keys,
        tags=tags,
        trajectory_of_sequence=np.repeat(np.arange(len(records)), sequences),
        prompts=seen,
        reasonings=reasonings,
        log_probs=np.array(log_probs),
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
        if name in ("trajectory_of_row", "trajectory_of_sequence"):
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

    def in_order(trajectory: np.ndarray) -> np.ndarray:
        """The places whose trajectory was chosen, sorted by its new number; else they stay in order."""
        places = np.flatnonzero(number[trajectory] >= 0)
        return places[np.argsort(number[trajectory[places]], kind="stable")]

    rows, sequences = in_order(played.trajectory_of_row), in_order(played.trajectory_of_sequence)
    picked: dict[str, Any] = {}
    for name in Played.__dataclass_fields__:
        value = getattr(played, name)
        index = trajectories if name in OF_TRAJECTORIES else sequences if name in OF_SEQUENCES else rows
        picked[name] = [value[at] for at in index] if isinstance(value, list) else value[index]
    for name in ("trajectory_of_row", "trajectory_of_sequence"):
        picked[name] = number[picked[name]]
    return Played(**picked)
