"""Read what a run recorded at each evaluation: the probe of its reasonings, and its validation.

A probe has blocks of `block_size` fresh instances with one reasoning each, scored under the prompts of its block.
Reasonings of one block share prompts, so blocks are the independent units of every test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat_analysis.data.results import Curve, Results, RunView

Array = NDArray[np.float64]
# quantity -> metric of the probe; training batches have another one
PROBED = {"retrieval": "probe/retrieval_acc", "entropy": "probe/h_z_given_x", "parses": "probe/fluent"}
LEVEL_SHARE = "probe/level/{}"  # metric: share of the reasonings of a level


@dataclass(frozen=True)
class Probe:
    """Hold one probe. Arrays have shape (blocks,).

    retrieval  share of the block's reasonings that are likeliest under their own prompt, in [0, 1]
    fluent     share of the block's reasonings that parse under the grammar of the demonstrations
    entropy    H(Z|X), nats per token; NaN where no reasoning of the block can be scored
    """

    step: int
    block_size: int
    retrieval: Array
    fluent: Array
    entropy: Array

    @property
    def reasonings(self) -> int:
        """Return the number of reasonings in all blocks."""
        return self.block_size * len(self.retrieval)

    @property
    def parsing(self) -> int:
        """Return the number of reasonings that parse."""
        return round(self.block_size * float(self.fluent.sum()))

    @property
    def mean_entropy(self) -> float | None:
        """Return H(Z|X) over all blocks; None where fewer than half of them have a reasoning that can be scored.

        The tokens of a few remaining reasonings are rare, so their mean could be many times the earlier entropy.
        """
        scored = self.entropy[~np.isnan(self.entropy)]
        return float(scored.mean()) if 2 * len(scored) >= len(self.entropy) else None

    @property
    def chance(self) -> float:
        """Return the retrieval accuracy of reasonings that do not depend on their prompt: 1 / block_size."""
        return 1.0 / self.block_size


@dataclass(frozen=True)
class Behaviour:
    """Hold one evaluation on the fixed validation instances: success and moves per turn, shape (instances,)."""

    step: int
    success: Array
    moves_per_turn: Array


def probes(results: Results, run: RunView) -> list[Probe]:
    """Return every valid probe of a run, by step."""
    entries = [_probe(step, data) for step, data in results.table(run.id, "probe")]
    return [probe for probe in entries if probe is not None]


def entropy_curve(results: Results, run: RunView) -> Curve:
    """Return H(Z|X) of a run's probes, without the steps at which most blocks have no reasoning."""
    steps, values = results.curve(run.id, PROBED["entropy"])
    silent = [probe.step for probe in probes(results, run) if probe.mean_entropy is None]
    counted = ~np.isin(steps, silent)
    return steps[counted], values[counted]


def behaviours(results: Results, run: RunView) -> list[Behaviour]:
    """Return every validation of a run that recorded moves, by step."""
    entries = [_behaviour(step, data) for step, data in results.table(run.id, "val_instances")]
    return [behaviour for behaviour in entries if behaviour is not None]


def early_probes(all_probes: Sequence[Probe]) -> list[Probe]:
    """Return the candidates for a run's early level: its probes of the first half of the steps, without the last probe.

    The first probe, before training, is always included. The level of the test accounts for choosing among them (see
    `regimes.regime.fell`).
    """
    if not all_probes:
        return []
    middle = (all_probes[0].step + all_probes[-1].step) / 2
    return [all_probes[0], *(probe for probe in all_probes[1:-1] if probe.step <= middle)]


def _probe(step: int, data: Any) -> Probe | None:
    try:
        size = int(data["block_size"])
        hits, fluent, entropy = (np.asarray(data[name], np.float64) for name in ("hits", "fluent", "h_z_given_x"))
    except (KeyError, TypeError, ValueError):
        return None
    if size < 2 or hits.ndim != 1 or not len(hits) or hits.shape != fluent.shape or hits.shape != entropy.shape:
        return None
    return Probe(step, size, hits / size, fluent / size, entropy)


def _behaviour(step: int, data: Any) -> Behaviour | None:
    try:
        success, turns, moves = (np.asarray(data[name], np.float64) for name in ("success", "turns", "moves"))
    except (KeyError, TypeError, ValueError):
        return None
    if success.ndim != 1 or not len(success) or success.shape != turns.shape or turns.shape != moves.shape:
        return None
    return Behaviour(step, success, moves / np.maximum(turns, 1))
