"""Choose which reasonings of a batch are scored under which prompts for the proxies of mutual information (Table 1).

    first_turn  sampled first reasonings, each scored under the first prompt of every group
    trajectory  sampled reasonings of any turn, each scored under the prompts of all the others
    turn_1 ...  sampled reasonings of this turn, each scored under its own prompt and one prompt of every other group:
                the prompt in this turn of the group's first trajectory that reached it. So every turn that all groups
                reach has equally many candidates, and turn_1 is first_turn

A reasoning is valid if its think section is closed and not empty; the actions after it may be wrong. Others are not
scored. `valid_reasonings` counts the different ones that were (at most `samples`: `trajectory` draws with replacement),
and `valid_share` is the share of valid ones among the turns that they are drawn from. In `first_turn` and `turn_1` the
candidates are the prompts of all groups, so the chance level does not depend on how many are valid. In `trajectory`
they are the prompts of the scored reasonings, and chance rises when few are left.

With pictures, `over_blank` is how much likelier a reasoning is after its own prompt than after the same prompt with
blank pictures, per token (nats): what the reasoning takes from the pictures alone.

The trainer scores: `score(rows, prompts)` returns the summed log-likelihood of the reasoning of each of these rows
under each of these prompts, by the policy that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plat_rl.loop.trajectory_table import Trajectories
from plat_rl.rl.config import MIConfig
from plat_rl.rl.mutual_information import (
    FIRST_TURN,
    TRAJECTORY,
    merge_prompts,
    mi_metrics,
    sample_first_turns,
    sample_turns,
)

if TYPE_CHECKING:
    from torch import Tensor

# (rows (n,), m distinct prompts) -> (n, m) summed log-likelihoods
Score = Callable[[NDArray[np.int64], list[Any]], "Tensor"]


def mutual_information(
    batch: Trajectories,
    prompts: Sequence[Hashable],
    config: MIConfig,
    sigmas: dict[str, float],
    rng: np.random.Generator,
    score: Score,
    blank: Callable[[Any], Any] | None = None,
) -> dict[str, float]:
    """Return the `mi/` metrics of a batch before filtering, in each scope that is switched on.

    A scope is left out if it has fewer than two reasonings or prompts to compare.

    prompts   (B,) prompt of each row, e.g. a tuple of token ids; equal prompts are one candidate
    sigmas    moving averages, which this measurement changes (`plat_rl.rl.mutual_information.mi_metrics`)
    rng       draws which reasonings are scored; see `plat_rl.loop.randomness`
    blank     prompt -> the same one with blank pictures; None: there are no pictures
    """
    metrics: dict[str, float] = {}
    has_reasoning = batch.reasoning_length > 0
    row_of = np.full((batch.trajectories, int(batch.turn_of_row.max()) + 1), -1)
    row_of[batch.trajectory_of_row, batch.turn_of_row] = np.arange(len(has_reasoning))

    def measure(
        scope: str,
        valid: NDArray[np.bool_],
        rows: NDArray[np.int64],
        columns: Sequence[Hashable],
        is_candidate: NDArray[np.bool_] | None = None,
    ) -> None:
        """Add the metrics of the reasonings of `rows` under the prompts `columns` (C,).

        valid          (n,) of each turn that `rows` are drawn from: has it a reasoning?
        is_candidate   (n, C) columns that count for each reasoning; None: all of them
        """
        merged = merge_prompts(columns)
        distinct = [columns[column] for column in merged.first]
        if len(rows) < 2 or (is_candidate is None and len(distinct) < 2):
            return
        weight = merged.weight
        if is_candidate is not None:
            weight = np.zeros((len(rows), len(distinct)))
            np.add.at(weight, (slice(None), merged.index), is_candidate)  # type: ignore[arg-type]  # the stubs know no slice
        number = {prompt: index for index, prompt in enumerate(distinct)}
        own = np.array([number[prompts[row]] for row in rows])
        tokens = batch.reasoning_length[rows]
        likely = score(rows, distinct)
        found = mi_metrics(likely, own, tokens, weight, config=config, scope=scope, sigmas=sigmas)
        if found and blank is not None:
            found[f"mi/{scope}/over_blank"] = over_blank(rows, likely[np.arange(len(rows)), own])
        if found:
            found[f"mi/{scope}/valid_reasonings"] = float(len(np.unique(rows)))
            found[f"mi/{scope}/valid_share"] = float(valid.mean())
        metrics.update(found)

    def over_blank(rows: NDArray[np.int64], own: Tensor) -> float:
        """Return the gain per token of the own prompts over blank ones; own: (n,) log-likelihoods."""
        assert blank is not None
        hidden = [blank(prompts[row]) for row in rows]
        merged = merge_prompts(hidden)
        without = score(rows, [hidden[column] for column in merged.first])[np.arange(len(rows)), merged.index]
        return float(np.mean((own - without).numpy() / batch.reasoning_length[rows]))

    if config.first_turn:
        first = row_of[:, 0]
        rows = first[sample_first_turns(has_reasoning[first], config.samples, rng)]
        _, first_of_group = np.unique(batch.group, return_index=True)
        measure(FIRST_TURN, has_reasoning[first], rows, [prompts[first[n]] for n in first_of_group])
    if config.trajectory:
        pairs = sample_turns((row_of >= 0) & has_reasoning[row_of], config.samples, rng)
        rows = row_of[pairs[:, 0], pairs[:, 1]]
        measure(TRAJECTORY, has_reasoning, rows, [prompts[row] for row in rows])
    for turn in range(min(config.turns, row_of.shape[1])):
        of_turn = row_of[:, turn]  # (N,) -1: the trajectory ended before
        reached = of_turn >= 0
        groups, first = np.unique(batch.group[reached], return_index=True)
        others = of_turn[reached][first]  # a row of each group
        rows = of_turn[sample_first_turns(reached & has_reasoning[of_turn], config.samples, rng)]
        if len(groups) > 1:
            is_other = groups != batch.group[batch.trajectory_of_row[rows]][:, None]
            is_candidate = np.concatenate((is_other, np.eye(len(rows), dtype=bool)), axis=1)
            valid, columns = has_reasoning[of_turn[reached]], [prompts[row] for row in (*others, *rows)]
            measure(f"turn_{turn + 1}", valid, rows, columns, is_candidate)
    return metrics
