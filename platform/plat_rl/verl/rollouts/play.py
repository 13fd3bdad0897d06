"""Play episodes with verl's agent workers, and return the results as arrays.

verl keeps a batch in TransferQueue, a row for each sequence (`verl_episode`) under the key
`<prompt>_<member>_<sequence>`. `play` reads the rows in this order and converts them to
`plat_rl.loop.trajectory_table`, so that both trainers compute metrics with the same code.
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
from plat_rl.loop.randomness import Key
from plat_rl.loop.trajectory_table import Trajectories, stacked
from plat_rl.loop.turns import Effect
from plat_rl.verl.vision.pictures import Picture, Prompt, Tokens

PLAY = "plat_play"  # field of a row with its `Play` for one instance, as JSON


@dataclass(frozen=True)
class Play:
    """Request to play instances of a split, each by a group of `group_size` trajectories.

    key           of the random numbers; the number of the prompt is appended
    temperature   of sampling; 0: greedy
    turns         maximum number
    """

    split: str
    seeds: Sequence[int]
    group_size: int
    key: Key
    temperature: float
    turns: int


@dataclass(kw_only=True)
class Played(Trajectories):
    """A batch of played episodes: N trajectories, B rows (one per turn), S sequences sorted by trajectory, then turn.

    A trajectory has one sequence, or one for each turn.

    keys, tags               (S,) of the sequences in TransferQueue
    trajectory_of_sequence   (S,)
    prompts                  (B,) all tokens that the policy saw before its response
    pictures                 (B,) all pictures among them
    reasonings               (B,) tokens of the reasoning, empty if there is none
    log_probs                (B,) summed log-probability of the reasoning's tokens when they were drawn
    cut                      (N,) True if an observation or the prompt was too long
    """

    keys: list[str]
    tags: list[dict[str, Any]]
    trajectory_of_sequence: np.ndarray
    prompts: list[Tokens]
    pictures: list[tuple[Picture, ...]]
    reasonings: list[Tokens]
    log_probs: np.ndarray
    cut: np.ndarray

    @property
    def seen(self) -> list[Prompt]:
        """(B,) tokens and pictures: what tells prompts apart."""
        return list(map(Prompt, self.prompts, self.pictures))

    def keys_of_others(self, trajectories: np.ndarray) -> list[str]:
        """Return the keys of all sequences except those of these trajectories."""
        others = ~np.isin(self.trajectory_of_sequence, trajectories)
        return [self.keys[number] for number in np.flatnonzero(others)]


# Fields that do not have a value for each row.
OF_SEQUENCES, OF_TRAJECTORIES = ("keys", "tags", "trajectory_of_sequence"), ("group", "success", "cut")


def play(manager: Any, buffer: Any, play: Play, step: int, partition: str) -> Played:
    """Play with verl's agent workers, wait for all episodes, and return them.

    manager, buffer   verl's AgentLoopManagerTQ and ReplayBuffer
    step              verl's number for this batch; does not change what is played
    partition         train: the rows stay in TransferQueue until they are cleared; val: they are removed at once

    Raises RunError if an episode failed, with the worker's traceback, or if a part of the batch did not come back.
    """
    import transfer_queue as tq
    from verl.utils import tensordict_utils as tu

    names = [uuid.uuid4().hex for _ in play.seeds]
    common = {"split": play.split, "temperature": play.temperature, "turns": play.turns}
    described = [
        json.dumps(common | {"seed": int(seed), "key": [*play.key, number]}) for number, seed in enumerate(play.seeds)
    ]
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
    """Return the rows of a finished batch in the order of prompts, members and sequences."""
    import transfer_queue as tq

    tags = dict(zip(done.keys, done.tags, strict=True))
    episodes = [_keys_of_episode(f"{name}_{member}", tags) for name in names for member in range(group_size)]
    missing = sum(not keys for keys in episodes)
    if missing:
        raise RunError(
            f"{missing} of {len(episodes)} episodes did not come back from verl's agent workers",
            fix="the attempt's log.txt has what the workers said",
        )
    keys = list(chain(*episodes))
    data = tq.kv_batch_get(
        keys=keys,
        partition_id=done.partition_id,
        select_fields=["prompts", "responses", "rollout_log_probs", "extra_fields"],
    )
    entries = [getattr(entry, "data", entry) for entry in list(data["extra_fields"])]
    records = [entry["plat"] for entry in entries if entry["plat"] is not None]
    for record in records:
        if record["failure"]:
            what = f"an episode failed in an agent worker:\n{record['failure']['traceback']}"
            raise RunError(what, failure_class=record["failure"]["class"])
    if [record["sequences"] for record in records] != [len(keys) for keys in episodes]:
        raise RunError("a part of an episode did not come back from verl's agent workers")
    prompts, responses, scores = (list(data[name].unbind()) for name in ("prompts", "responses", "rollout_log_probs"))
    images = [entry.get("plat_images", ()) for entry in entries]
    return assemble(keys, [tags[key] for key in keys], records, prompts, responses, scores, group_size, images)


def _keys_of_episode(name: str, stored: Container[str]) -> list[str]:
    """Return the keys `<name>_0`, `<name>_1`, .. before the first that is not stored."""
    return list(takewhile(stored.__contains__, (f"{name}_{number}" for number in count())))


def assemble(
    keys: list[str],
    tags: list[dict[str, Any]],
    records: list[dict[str, Any]],
    prompts: list[torch.Tensor],
    responses: list[torch.Tensor],
    scores: list[torch.Tensor],
    group_size: int,
    images: Sequence[Sequence[np.ndarray]] = (),
) -> Played:
    """Return the trajectories of stored sequences as arrays.

    records                      (N,) of `Episode.record`
    prompts, responses, scores   (S,) tokens and log-probabilities of the sequences
    images                       (S,) those of the sequences; empty: no sequence has any
    """
    pictures_of_sequence = [tuple(map(Picture.of, own)) for own in images] or [()] * len(keys)
    sequences = np.array([record["sequences"] for record in records])
    first_sequence = np.cumsum(sequences) - sequences
    rows = [(number, turn) for number, record in enumerate(records) for turn in range(len(record["turns"]))]
    turns = [records[number]["turns"][turn] for number, turn in rows]
    lengths = np.array([turn["length"] for turn in turns])
    sampled = np.zeros((len(rows), int(lengths.max(initial=1))), dtype=np.float32)
    seen, pictures, reasonings, log_probs = [], [], [], []
    for row, ((number, _), turn) in enumerate(zip(rows, turns, strict=True)):
        sequence, start = first_sequence[number] + turn["sequence"], turn["start"]
        response = responses[sequence].tolist()
        drawn = scores[sequence][start : start + turn["length"]].numpy()
        sampled[row, : turn["length"]] = -drawn
        reasoning = max(0, turn["effect"]["reasoning_length"])
        seen.append((*prompts[sequence].tolist(), *response[:start]))
        pictures.append(pictures_of_sequence[sequence][: turn["images"]])
        reasonings.append(tuple(response[start : start + reasoning]))
        log_probs.append(float(drawn[:reasoning].astype(np.float64).sum()))

    effects = {name: np.array([turn["effect"][name] for turn in turns]) for name in Effect._fields}
    return Played(
        keys=keys,
        tags=tags,
        trajectory_of_sequence=np.repeat(np.arange(len(records)), sequences),
        prompts=seen,
        pictures=pictures,
        reasonings=reasonings,
        log_probs=np.array(log_probs),
        cut=np.array([record["cut"] for record in records]),
        trajectory_of_row=np.array([number for number, _ in rows]),
        turn_of_row=np.array([turn for _, turn in rows]),
        response_length=lengths,
        # Not every engine reports entropies; the negative log-probability of a drawn token is an unbiased estimate.
        entropies=sampled,
        group=np.arange(len(records)) // group_size,
        success=np.array([record["success"] for record in records]),
        **effects,
    )


def joined(parts: list[Played]) -> Played:
    """Return several batches as one; groups and trajectories are renumbered consecutively."""
    if len(parts) == 1:
        return parts[0]
    trajectories = np.cumsum([0, *(part.trajectories for part in parts)])
    groups = np.cumsum([0, *(int(part.group.max(initial=-1)) + 1 for part in parts)])
    together: dict[str, Any] = {}
    for name in Played.__dataclass_fields__:
        values = [getattr(part, name) for part in parts]
        if name in ("trajectory_of_row", "trajectory_of_sequence"):
            values = [value + first for value, first in zip(values, trajectories, strict=False)]
        elif name == "group":
            values = [value + first for value, first in zip(values, groups, strict=False)]
        together[name] = list(chain(*values)) if isinstance(values[0], list) else stacked(values)
    return Played(**together)


def chosen(played: Played, trajectories: np.ndarray) -> Played:
    """Return the batch of these trajectories only, renumbered in the order given."""
    number = np.full(played.trajectories, -1)
    number[trajectories] = np.arange(len(trajectories))

    def in_order(trajectory: np.ndarray) -> np.ndarray:
        """Return the indices with a chosen trajectory, sorted by its new number; ties keep their order."""
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
