"""Which reasonings of a batch are scored under which prompts for the proxies of mutual information (Table 1).

    first_turn  sampled first reasonings, each scored under the first prompt of every group
    trajectory  sampled reasonings of any turn, each scored under the prompts of all the others
    turn_1 ...  sampled reasonings of this turn, each scored under its own prompt and, of every other group, the prompt
                in this turn of its first trajectory that got so far. So there are as many candidates in every turn that
                all groups reach, and turn_1 is first_turn

The trainer does the scoring: `score(rows, prompts)` gives the summed log-likelihood of the reasoning of each of these
rows of the batch under each of these prompts, by the policy that wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from plat.rl.config import MIConfig
from plat.rl.mutual_information import (
    FIRST_TURN,
    TRAJECTORY,
    SigmaEMA,
    merge_prompts,
    mi_metrics,
    sample_first_turns,
    sample_turns,
)
from plat.trainer.loop.trajectories import Trajectories

if TYPE_CHECKING:
    from torch import Tensor

# (rows (n,), m distinct prompts) -> (n, m) summed log-likelihoods
Score = Callable[[NDArray[np.int64], list[Any]], "Tensor"]


def mutual_information(
    batch: Trajectories,
    prompts: Sequence[Hashable],
    config: MIConfig,
    ema: SigmaEMA,
    rng: np.random.Generator,
    score: Score,
) -> dict[str, float]:
    """The `mi/` metrics of a batch before filtering, in each scope that is switched on; advances the EMA.

    prompts   (B,) what each row answers, e.g. a tuple of token ids; equal prompts are one candidate
    rng       draws which reasonings are scored; see `plat.trainer.loop.randomness`
    """
    metrics: dict[str, float] = {}
    has_reasoning = batch.reasoning_length > 0
    row_of = np.full((batch.trajectories, int(batch.turn_of_row.max()) + 1), -1)
    row_of[batch.trajectory_of_row, batch.turn_of_row] = np.arange(len(has_reasoning))
    if config.first_turn:
        first = row_of[:, 0]
        rows = first[sample_first_turns(has_reasoning[first], config.samples, rng)]
        _, first_of_group = np.unique(batch.group, return_index=True)
        columns = [prompts[first[n]] for n in first_of_group]
        metrics |= _measure(batch, prompts, rows, columns, config, FIRST_TURN, ema, score)
    if config.trajectory:
        pairs = sample_turns((row_of >= 0) & has_reasoning[row_of], config.samples, rng)
        rows = row_of[pairs[:, 0], pairs[:, 1]]
        columns = [prompts[row] for row in rows]
        metrics |= _measure(batch, prompts, rows, columns, config, TRAJECTORY, ema, score)
    for turn in range(min(config.turns, row_of.shape[1])):
        metrics |= _measure_turn(batch, prompts, row_of[:, turn], turn, config, ema, rng, score)
    return metrics


def _measure_turn(
    batch: Trajectories,
    prompts: Sequence[Hashable],
    row_of: NDArray[np.int64],
    turn: int,
    config: MIConfig,
    ema: SigmaEMA,
    rng: np.random.Generator,
    score: Score,
) -> dict[str, float]:
    """The metrics of one turn; `row_of` (N,) has each trajectory's row of it, -1 where there is none.

    Nothing where fewer than two groups, or two reasonings, got so far.
    """
    reached = row_of >= 0
    groups, first = np.unique(batch.group[reached], return_index=True)
    others = row_of[reached][first]  # a row of each group
    rows = row_of[sample_first_turns(reached & (batch.reasoning_length[row_of] > 0), config.samples, rng)]
    if len(rows) < 2 or len(groups) < 2:
        return {}
    merged = merge_prompts([prompts[row] for row in (*others, *rows)])
    of_group, own = merged.index[: len(groups)], merged.index[len(groups) :]
    weight = np.zeros((len(rows), len(merged.first)))
    for number, row in enumerate(rows):
        is_other = groups != batch.group[batch.trajectory_of_row[row]]
        np.add.at(weight[number], of_group[is_other], 1.0)
        weight[number, own[number]] += 1.0
    columns = [*others, *rows]
    matrix = score(rows, [prompts[columns[column]] for column in merged.first])
    scope = f"turn_{turn + 1}"
    return mi_metrics(matrix, own, batch.reasoning_length[rows], weight, config=config, scope=scope, ema=ema)


def _measure(
    batch: Trajectories,
    prompts: Sequence[Hashable],
    rows: NDArray[np.int64],
    columns: Sequence[Hashable],
    config: MIConfig,
    scope: str,
    ema: SigmaEMA,
    score: Score,
) -> dict[str, float]:
    """The metrics of one scope: the reasonings of these rows of the batch, scored under the prompts in `columns`."""
    merged = merge_prompts(columns)
    if len(rows) < 2 or len(merged.first) < 2:
        return {}
    distinct = [columns[column] for column in merged.first]
    number = {prompt: index for index, prompt in enumerate(distinct)}
    own = np.array([number[prompts[row]] for row in rows])
    matrix = score(rows, distinct)
    return mi_metrics(matrix, own, batch.reasoning_length[rows], merged.weight, config=config, scope=scope, ema=ema)
