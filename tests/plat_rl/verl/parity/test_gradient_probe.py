"""The gradient probe of one model and batch through verl's worker and by the embedded trainer: the same norms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from plat_rl.embedded.batch import Batch
from plat_rl.embedded.learner import Learner
from plat_rl.rl.filter.selection import StepPlan
from plat_rl.rl.gradient_probe import gradient_metrics, terms_of
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.update.batches import targets

pytestmark = pytest.mark.verl

GROUPS, SIZE = 4, 4
PROBE = ("gradient.every=1", f"gradient.prompts={GROUPS}", f"gradient.group_size={SIZE}", "gradient.buckets=2")
REGULARISED = ("algorithm.kl_coef=0.05", "algorithm.entropy_coef=0.01")
CASES = {  # name -> overrides; tokens of micro-batches; whether a real step is made before
    "ppo": (("algorithm=ppo", "algorithm.loss_agg=token-mean"), 700, False),
    "grpo, regularised, each turn a sequence": (("algorithm=grpo", "train.context=current", *REGULARISED), 200, False),
    "after a step": (("algorithm=drgrpo",), 100_000, True),
}


def without_pad(config: VerlRunConfig, play: Callable[..., Batch]) -> Batch:
    """A batch in which the policy never said `<pad>`: in transformers what reads that token gives it no gradient."""
    for number in range(100):
        batch = play(config, groups=GROUPS, size=SIZE, key=("training", number))
        if (batch.responses[batch.token_mask] != 0).all():
            return batch
    raise AssertionError("every batch has a <pad>")


def of_embedded(learner: Learner, batch: Batch, config: VerlRunConfig) -> tuple[dict[str, float], list[np.ndarray]]:
    """The `grad/` metrics of the embedded trainer, and the trajectories of each bucket."""
    parts: list[np.ndarray] = []

    def norms(buckets: Any) -> list[dict[str, float]]:
        parts.extend(buckets)
        return learner.gradient_norms(batch, buckets)

    return gradient_metrics(batch.returns.reshape(GROUPS, SIZE), config.gradient, norms), parts


@pytest.fixture(scope="module")
def probed(
    make_config: Callable[..., VerlRunConfig],
    play: Callable[..., Batch],
    model: Any,
    layout: Callable[..., Any],
    ask_verl: Callable[..., list[dict[str, Any]]],
    as_json: Callable[[VerlRunConfig], str],
) -> dict[str, tuple[dict[str, float], dict[str, float], dict[str, Any]]]:
    """Name -> the `grad/` metrics of the embedded trainer, those with verl's norms, and verl's answer."""
    cases, known = [], {}
    for name, (overrides, tokens, steps) in CASES.items():
        config = make_config("task=sokoban", *overrides, *PROBE)
        context = config.train.context
        batch = without_pad(config, play)
        learner = Learner(config, model.shape, model.flat, 0)
        if learner.reference is not None:
            noise = torch.randn(model.flat.shape, generator=torch.Generator().manual_seed(4))
            learner.reference = learner.reference + 0.05 * noise
        whole = learner._with_targets(batch, StepPlan(1))
        log_probs = learner._log_probs(learner.actor.parameter, batch)[0].detach()
        sequences = layout(batch, context)
        rows = sequences.rows() | {"old_log_probs": sequences.cut(sequences.spread(log_probs))}
        values = None
        mask = whole.layout.mask.bool()
        if whole.targets.old_values is not None:
            values = sequences.spread(whole.targets.old_values[mask])
        if whole.targets.reference_log_probs is not None:
            rows["ref_log_prob"] = sequences.cut(sequences.spread(whole.targets.reference_log_probs[mask]))
        computed = targets(config, batch, sequences.trajectory_of_sequence, sequences.mask, values)
        rows |= {field: sequences.cut(value) for field, value in computed.items()}
        returns = batch.returns.reshape(GROUPS, SIZE)
        expected, parts = of_embedded(learner, batch, config)
        places = [np.flatnonzero(np.isin(sequences.trajectory_of_sequence, part)).tolist() for part in parts]
        terms = terms_of(config.algorithm)
        cases.append({
            "role": "norms", "config": as_json(config), "rows": rows, "scale": 1.0, "sequences": batch.trajectories,
            "tokens": tokens, "temperature": config.train.temperature, "head": None, "steps": steps,
            "parts": [(place, len(part), term) for place, part in zip(places, parts, strict=True) for term in terms],
        })  # fmt: skip
        known[name] = config, returns, expected, terms
    results = {}
    for (name, (config, returns, expected, terms)), answer in zip(known.items(), ask_verl(cases), strict=True):
        norms = np.array(answer["norms"]).reshape(-1, len(terms))
        named = [dict(zip(terms, row.tolist(), strict=True)) for row in norms]
        results[name] = expected, gradient_metrics(returns, config.gradient, lambda _, named=named: named), answer
    return results


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if not case[2]])
def test_the_norms_of_every_bucket_are_the_same(probed: Any, name: str) -> None:
    expected, ours, _ = probed[name]
    assert ours.keys() == expected.keys() and ("grad/q1/kl" in ours) == ("regularised" in name)
    assert expected["grad/q2/task"] > 1e-3 and expected["grad/q2/reward_std_mean"] > expected["grad/q1/reward_std_mean"]
    for metric, value in expected.items():
        assert ours[metric] == pytest.approx(value, rel=1e-5, abs=1e-7), metric


def test_weights_optimiser_and_random_numbers_stay_as_they_are(probed: Any) -> None:
    for _, _, answer in probed.values():
        assert not answer["moved"] and answer["compared"] > 12
    # After a step there is a state of the optimiser, too: two means and a count for each weight.
    assert probed["after a step"][2]["compared"] > 3 * 12
