"""The proxies of mutual information of one model and batch, by the code of either trainer: the same numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from plat_rl.embedded.batch import Batch
from plat_rl.embedded.probe import Probe, Reasonings
from plat_rl.embedded.scoring import measure as embedded_measure
from plat_rl.embedded.transformer.model import unpack
from plat_rl.rl.config import PROBE_BLOCK
from plat_rl.verl.rollouts.play import Played
from plat_rl.verl.rollouts.verl_cross_score import block_pairs, block_result, measure
from plat_rl.verl.settings.verl_config import VerlRunConfig

pytestmark = pytest.mark.verl

GROUPS, SIZE = 8, 3
PROBED = 3 * PROBE_BLOCK  # the first rows of a batch
CASES = {  # name -> overrides
    "full context, hot sampling": ("train.context=full", "train.temperature=1.3", "mi.samples=16"),
    "current context": ("train.context=current",),
}


def played(batch: Batch) -> Played:
    """A batch of the embedded trainer as what verl's agent workers hand over."""
    reasonings = [
        tuple(ids[: max(0, length)].tolist())
        for ids, length in zip(batch.responses, batch.reasoning_length, strict=True)
    ]
    inside = np.arange(batch.log_probs.shape[1]) < batch.reasoning_length[:, None]
    shared = ("trajectory_of_row", "turn_of_row", "response_length", "reasoning_length", "entropies", "rewards",
              "group", "success", "format_valid", "reasoning_level", "actions", "moves", "constant_reward",
              "tricks")  # fmt: skip
    return Played(
        keys=[], tags=[], trajectory_of_sequence=np.arange(batch.trajectories), cut=np.zeros(batch.trajectories, bool),
        prompts=[batch.prompts[number] for number in batch.prompt_of_row], reasonings=reasonings,
        pictures=[()] * len(reasonings),
        log_probs=(batch.log_probs.astype(np.float64) * inside).sum(1),
        **{name: getattr(batch, name) for name in shared},
    )  # fmt: skip


class Asked:
    """Scores of pairs by verl's worker. Which pairs are scored is drawn before any score is known."""

    def __init__(self) -> None:
        self.pairs: dict[Any, None] = {}
        self.scores: dict[Any, float] = {}

    def __call__(self, pairs: list[Any]) -> np.ndarray:
        self.pairs |= dict.fromkeys(pairs)
        return np.array([self.scores.get(pair, 0.0) for pair in pairs])


def embedded_probe(config: VerlRunConfig, batch: Batch, weights: Any, tokenizer: Any) -> Any:
    """The reasoning probe's result for the first rows of a batch, by the embedded trainer."""
    probe = Probe.__new__(Probe)  # only its scoring is used: no instances are drawn
    probe.config, probe.tokenizer = config, tokenizer
    prompts = [batch.prompts[number] for number in batch.prompt_of_row[:PROBED]]
    lengths = np.maximum(batch.reasoning_length[:PROBED], 0)
    levels = np.where(lengths > 0, batch.reasoning_level[:PROBED], -1)
    return probe.score(weights, Reasonings(prompts, batch.responses[:PROBED], lengths, levels))


def first_rows(batch: Played) -> Played:
    """The probe's part of a batch."""
    values = {name: getattr(batch, name) for name in Played.__dataclass_fields__}
    rows = ("prompts", "pictures", "reasonings", "reasoning_length", "reasoning_level")
    return Played(**{name: value[:PROBED] if name in rows else value for name, value in values.items()})


@pytest.fixture(scope="module")
def measured(
    make_config: Callable[..., VerlRunConfig],
    play: Callable[..., Batch],
    model: Any,
    policy: Any,
    ask_verl: Callable[..., list[dict[str, Any]]],
    as_json: Callable[[VerlRunConfig], str],
) -> dict[str, tuple[dict[str, float], dict[str, float], Any, Any]]:
    """Name -> `mi/` metrics and the probe's result of the embedded trainer, and the same with verl's scores."""
    weights = unpack(model.shape, model.flat)
    batches, asked, cases = {}, {}, []
    for name, overrides in CASES.items():
        config = make_config("task=sokoban", *overrides)
        batch = play(config, groups=GROUPS, size=SIZE, seeds=[7 + number // SIZE for number in range(GROUPS * SIZE)])
        ours = played(batch)
        asked[name] = Asked()
        measure(ours, config.mi, {}, np.random.default_rng(5), asked[name])
        asked[name](block_pairs(first_rows(ours)))
        batches[name] = config, batch, ours
        cases.append({"role": "score", "config": as_json(config), "pairs": list(asked[name].pairs), "tokens": 16384,
                      "temperature": config.train.temperature})  # fmt: skip
    results = {}
    for (name, (config, batch, ours)), answer in zip(batches.items(), ask_verl(cases), strict=True):
        asked[name].scores = dict(zip(asked[name].pairs, answer["scores"], strict=True))
        options = config.mi, {}
        expected = embedded_measure(weights, batch, *options, 0, config.train.temperature, np.random.default_rng(5))
        with_verl = measure(ours, config.mi, {}, np.random.default_rng(5), asked[name])
        probed = block_result(first_rows(ours), asked[name](block_pairs(first_rows(ours))))
        results[name] = expected, with_verl, embedded_probe(config, batch, weights, policy.tokenizer), probed
    return results


@pytest.mark.parametrize("name", CASES)
def test_every_proxy_of_mutual_information_is_the_same(measured: Any, name: str) -> None:
    expected, ours, _, _ = measured[name]
    assert ours.keys() - expected.keys() == {"mi/score_gap"} and expected.keys() <= ours.keys()
    for scope in ("mi/first_turn/", "mi/trajectory/"):
        names = {metric.removeprefix(scope) for metric in expected if metric.startswith(scope)}
        assert {"retrieval_acc", "mi_est", "mi_seq_est", "mi_zscore", "mi_zscore_ema", "h_z", "h_z_given_x"} <= names
    for metric, value in expected.items():
        assert ours[metric] == pytest.approx(value, rel=1e-5, abs=1e-5), metric


@pytest.mark.parametrize("name", CASES)
def test_the_reasoning_probe_is_the_same(measured: Any, name: str) -> None:
    _, _, expected, ours = measured[name]
    assert len(expected.hits) == PROBED and not np.isnan(expected.h_z_given_x).all()
    for metric, value in expected.metrics().items():
        assert ours.metrics()[metric] == pytest.approx(value, rel=1e-5, abs=1e-7), metric
    assert np.allclose(ours.h_z_given_x, expected.h_z_given_x, rtol=1e-5, equal_nan=True)
    assert np.allclose(ours.hits, expected.hits)
