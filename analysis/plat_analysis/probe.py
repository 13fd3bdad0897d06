"""What a run recorded of its policy at each evaluation: the probe of its reasonings, and how its validation went.

The probe is made of blocks: `block_size` fresh instances, one reasoning each, and each reasoning scored under the
prompts of its block. Reasonings of one block share prompts, so
blocks, not reasonings, are the independent units of every test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from plat_analysis.results import Results, RunView

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Probe:
    """One probe, or several together. Arrays have one number for each block.

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
        """The number of reasonings in all blocks."""
        return self.block_size * len(self.retrieval)

    @property
    def mean_entropy(self) -> float | None:
        """H(Z|X) over all blocks; None where not one reasoning could be scored."""
        scored = self.entropy[~np.isnan(self.entropy)]
        return float(scored.mean()) if len(scored) else None

    @property
    def chance(self) -> float:
        """Retrieval accuracy of reasonings that do not depend on their prompt: 1 / block_size."""
        return 1.0 / self.block_size


@dataclass(frozen=True)
class Behaviour:
    """One evaluation on the fixed validation instances: success and moves per turn of each instance."""

    step: int
    success: Array
    moves_per_turn: Array


def probes(results: Results, run: RunView) -> list[Probe]:
    """Every probe of a run, by step; entries that are not as logged by a trainer are left out."""
    entries = [_probe(step, data) for step, data in results.table(run.id, "probe")]
    return [probe for probe in entries if probe is not None]


def behaviours(results: Results, run: RunView) -> list[Behaviour]:
    """Every validation of a run that recorded moves, by step."""
    entries = [_behaviour(step, data) for step, data in results.table(run.id, "val_instances")]
    return [behaviour for behaviour in entries if behaviour is not None]


def early_probe(all_probes: Sequence[Probe]) -> Probe | None:
    """The run's own early level: the probes of its first two evaluations together, the last evaluation excepted.

    Which probes these are is fixed beforehand, so nothing is chosen by its value. A run with a single probe is its own
    early level.
    """
    if not all_probes:
        return None
    first = [probe for probe in all_probes[:2] if probe is not all_probes[-1]] or [all_probes[0]]
    retrieval, fluent, entropy = (
        np.concatenate([getattr(probe, name) for probe in first]) for name in ("retrieval", "fluent", "entropy")
    )
    return Probe(first[0].step, first[0].block_size, retrieval, fluent, entropy)


def early_behaviour(evaluations: Sequence[Behaviour]) -> Behaviour | None:
    """The early level of success and moves: for each instance, the mean over the first two evaluations.

    The last evaluation is excepted, as in `early_probe`. Where the number of instances differs, only the first counts.
    """
    if not evaluations:
        return None
    first = [item for item in evaluations[:2] if item is not evaluations[-1]] or [evaluations[0]]
    if any(item.success.shape != first[0].success.shape for item in first):
        first = first[:1]
    means = [np.mean([getattr(item, name) for item in first], axis=0) for name in ("success", "moves_per_turn")]
    return Behaviour(first[0].step, *means)


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
