"""Advantages and losses against plain loops and against verl's own engine loss (imports verl once: seconds)."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plat.errors import RunError
from plat_rl.rl.algorithms import Aggregation, actor_loss, advantages, kl_loss, policy_loss, value_loss
from plat_rl.rl.config import AlgorithmConfig

PPO = AlgorithmConfig()
DAPO_RELEASED = AlgorithmConfig(name="dapo_released")
DAPO = AlgorithmConfig(name="dapo", advantage="grpo", dynamic_sampling=True)
GRPO = AlgorithmConfig(name="grpo", advantage="grpo", loss_agg="seq-mean-token-mean")
DR_GRPO = AlgorithmConfig(name="dr_grpo", advantage="grpo", norm_by_std=False, loss_agg="seq-mean-token-sum")
DR_GRPO_NORM = replace(DR_GRPO, loss_agg="seq-mean-token-sum-norm")
ALL = [PPO, DAPO_RELEASED, DAPO, GRPO, DR_GRPO, DR_GRPO_NORM]
NORM = Aggregation(loss_scale_factor=96)
seeds = st.integers(0, 2**32 - 1)


def batch(seed, n=6, t=9):
    """Sequences of different lengths with observation tokens in between; every sequence has a response token."""
    generator = torch.Generator().manual_seed(seed)

    def normal(scale):
        return torch.randn(n, t, generator=generator, dtype=torch.float64) * scale

    lengths = torch.randint(1, t + 1, (n,), generator=generator)
    inside = torch.arange(t) < lengths[:, None]
    mask = (inside & (torch.rand(n, t, generator=generator) < 0.7)).double()
    mask[torch.arange(n), lengths - 1] = 1.0  # the last token is the policy's
    rewards = torch.zeros(n, t, dtype=torch.float64)
    rewards[torch.arange(n), lengths - 1] = torch.randint(0, 3, (n,), generator=generator).double()
    return {
        "mask": mask,
        "lengths": lengths,
        "rewards": rewards,
        "groups": [0] * (n // 2) + [7] * (n - n // 2),
        "values": normal(1.0),
        "old": normal(0.5) - 1,
        "new": normal(0.5) - 1,
        "ref": normal(0.5) - 1,
        "adv": normal(1.0),
        "entropy": normal(0.3) ** 2,
        "returns": normal(1.0),
    }


def aggregate(mode, values, mask, factor=96):
    """agg_loss, one token at a time."""
    rows = [[v for v, m in zip(vs, ms, strict=True) if m] for vs, ms in zip(values, mask, strict=True)]
    rows = [row for row in rows if row]
    if mode == "token-mean":
        return sum(map(sum, rows)) / sum(map(len, rows))
    if mode == "seq-mean-token-mean":
        return sum(sum(row) / (len(row) + 1e-8) for row in rows) / len(rows)  # verl adds it against an empty row
    return sum(map(sum, rows)) / len(rows) / (factor if mode.endswith("norm") else 1)


def clipped(config, old, new, advantage):
    """The PPO loss of one token, with the dual clip."""
    ratio = math.exp(new - old)
    loss = -min(ratio * advantage, min(max(ratio, 1 - config.clip_low), 1 + config.clip_high) * advantage)
    return min(loss, -config.clip_c * advantage) if advantage < 0 else loss


@given(seeds, st.sampled_from(ALL))
@example(447, ALL[0])  # one token reaches the limit of verl's KL estimate
@example(3904397, GRPO)  # a large loss of short sequences: the 1e-8 of verl's mean is larger than the tolerance
@settings(max_examples=60, deadline=None)
def test_the_whole_loss_is_what_the_loops_say(seed, base):
    config = replace(base, entropy_coef=0.01, kl_coef=0.05)
    b = batch(seed)
    loss, metrics = actor_loss(
        config, b["old"], b["new"], b["adv"], b["mask"], token_entropy=b["entropy"], ref_logp=b["ref"], by=NORM
    )
    mask, entropy = b["mask"].tolist(), b["entropy"].tolist()
    triples = zip(b["old"].tolist(), b["new"].tolist(), b["adv"].tolist(), strict=True)
    pg = [[clipped(config, *token) for token in zip(*row, strict=True)] for row in triples]
    difference = (b["ref"] - b["new"]).tolist()
    kl = [[min(math.exp(d) - d - 1, 10.0) for d in row] for row in difference]  # verl limits this estimate to 10

    def total(values):
        return aggregate(config.loss_agg, values, mask)

    assert metrics["pg_loss"] == pytest.approx(total(pg), abs=1e-8)
    assert float(loss) == pytest.approx(
        total(pg) - 0.01 * total(entropy) + 0.05 * total(kl), abs=1e-8
    )  # float32: the terms may cancel
    assert metrics["entropy"] == pytest.approx(aggregate("token-mean", entropy, mask))  # comparable between modes
    assert metrics["kl"] == pytest.approx(aggregate("token-mean", kl, mask))
    assert 0 <= metrics["clip_fraction"] <= 1


@pytest.mark.parametrize("base", ALL, ids=lambda config: f"{config.name}-{config.loss_agg}")
def test_loss_and_gradient_equal_those_of_verls_engine(base):
    """`ppo_loss` is what verl's own trainer runs: same numbers on interleaved masks, with entropy and KL terms."""
    from tensordict import TensorDict
    from verl.workers.config import ActorConfig
    from verl.workers.utils.losses import ppo_loss

    config = replace(base, entropy_coef=0.01, kl_coef=0.05)
    b = batch(3)
    lengths = b["lengths"].tolist()

    def jagged(values, extra=0):
        rows = [torch.cat([row[:n], row.new_zeros(extra)]) for row, n in zip(values, lengths, strict=True)]
        return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

    ones = torch.ones(len(lengths), max(lengths))
    data = TensorDict(
        {
            "prompts": torch.nested.as_nested_tensor([torch.ones(1)] * len(lengths), layout=torch.jagged),
            "responses": jagged(ones),
            "response_mask": jagged(b["mask"]),
            "old_log_probs": jagged(b["old"]),
            "advantages": jagged(b["adv"]),
            "ref_log_prob": jagged(b["ref"]),
        },
        batch_size=len(lengths),
    )
    from verl.utils import tensordict_utils

    tensordict_utils.assign_non_tensor(data, dp_size=1, batch_num_tokens=None, global_batch_size=None)
    logp = b["new"].clone().requires_grad_()
    theirs, _ = ppo_loss(
        ActorConfig(
            strategy="fsdp",
            rollout_n=1,
            use_dynamic_bsz=True,
            clip_ratio_low=config.clip_low,
            clip_ratio_high=config.clip_high,
            clip_ratio_c=config.clip_c,
            loss_agg_mode=config.loss_agg,
            loss_scale_factor=96,
            entropy_coeff=0.01,
            use_kl_loss=True,
            kl_loss_coef=0.05,
            kl_loss_type=config.kl_kind,
        ),
        {"log_probs": jagged(logp, extra=1), "entropy": jagged(b["entropy"], extra=1)},
        data,
    )
    (their_gradient,) = torch.autograd.grad(theirs, logp)
    ours, _ = actor_loss(
        config, b["old"], logp, b["adv"], b["mask"], token_entropy=b["entropy"], ref_logp=b["ref"], by=NORM
    )
    (our_gradient,) = torch.autograd.grad(ours, logp)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(our_gradient, their_gradient)


@given(seeds)
@settings(max_examples=40, deadline=None)
def test_generalised_advantages(seed):
    config = replace(PPO, gamma=0.9, lam=0.8)
    b = batch(seed)
    actual, returns = advantages(config, b["rewards"], b["mask"], b["groups"], b["values"])
    raw = {}
    for i, row in enumerate(b["mask"].tolist()):
        following, running = 0.0, 0.0
        for t in reversed([t for t, m in enumerate(row) if m]):  # the policy's own tokens only
            value = float(b["values"][i, t])
            running = float(b["rewards"][i, t]) + 0.9 * following - value + 0.9 * 0.8 * running
            following, raw[i, t] = value, running
    mean, std = statistics.fmean(raw.values()), statistics.stdev(raw.values())
    for (i, t), value in raw.items():
        assert float(returns[i, t]) == pytest.approx(value + float(b["values"][i, t]))
        assert float(actual[i, t]) == pytest.approx((value - mean) / std, rel=1e-5, abs=1e-6)


@given(seeds, st.booleans())
@settings(max_examples=40, deadline=None)
def test_group_advantages(seed, norm_by_std):
    config = replace(GRPO, norm_by_std=norm_by_std)
    b = batch(seed)
    actual, returns = advantages(config, b["rewards"], b["mask"], b["groups"])
    totals = b["rewards"].sum(dim=1).tolist()
    for i, group in enumerate(b["groups"]):
        peers = [r for r, g in zip(totals, b["groups"], strict=True) if g == group]
        expected = totals[i] - statistics.fmean(peers)
        if norm_by_std:
            expected /= statistics.stdev(peers) + 1e-6
        torch.testing.assert_close(actual[i], expected * b["mask"][i])
    torch.testing.assert_close(actual, returns)


@given(seeds, st.sampled_from([0.01, 0.7, 1.5, 40.0]))
@settings(max_examples=40, deadline=None)
def test_a_floor_under_the_standard_deviation(seed, floor):
    b = batch(seed)
    actual, returns = advantages(replace(GRPO, std_floor=floor), b["rewards"], b["mask"], b["groups"])
    totals = b["rewards"].sum(dim=1).tolist()
    for i, group in enumerate(b["groups"]):
        peers = [r for r, g in zip(totals, b["groups"], strict=True) if g == group]
        expected = (totals[i] - statistics.fmean(peers)) / (max(statistics.stdev(peers), floor) + 1e-6)
        torch.testing.assert_close(actual[i], expected * b["mask"][i])
    torch.testing.assert_close(actual, returns)


def test_a_floor_that_no_group_reaches_changes_nothing_and_a_group_of_one_is_not_divided():
    b = batch(3)
    plain, _ = advantages(GRPO, b["rewards"], b["mask"], b["groups"])
    floored, _ = advantages(replace(GRPO, std_floor=1e-9), b["rewards"], b["mask"], b["groups"])
    torch.testing.assert_close(floored, plain)
    alone, _ = advantages(replace(GRPO, std_floor=5.0), b["rewards"][:1], b["mask"][:1], b["groups"][:1])
    torch.testing.assert_close(alone, b["rewards"][:1].sum() * b["mask"][:1])


def test_group_ids_may_be_a_tensor_and_the_input_is_left_alone():
    b = batch(1)
    before = b["rewards"].clone()
    single = advantages(GRPO, b["rewards"], b["mask"].bool(), torch.tensor(b["groups"]))[0]
    torch.testing.assert_close(single.double(), advantages(GRPO, b["rewards"], b["mask"], np.array(b["groups"]))[0])
    torch.testing.assert_close(b["rewards"], before)
    assert not single.requires_grad


@pytest.mark.parametrize("group", [8, 12, 16])
def test_a_prompt_without_spread_has_no_advantage(group):
    """In float32, verl's estimator gives every trajectory of such a prompt the same advantage of up to 0.5."""
    mask = torch.ones(group, 4)
    for value in (0.1, -0.7, 9.9, 10.3):
        rewards = torch.zeros(group, 4)
        rewards[:, -1] = value
        actual, _ = advantages(GRPO, rewards, mask, [0] * group)
        assert actual.dtype == mask.dtype
        assert actual.abs().max() < 1e-6


def test_dapo_as_released_equals_ppo():
    b = batch(5)
    for ppo, dapo in zip(
        advantages(PPO, b["rewards"], b["mask"], b["groups"], b["values"]),
        advantages(DAPO_RELEASED, b["rewards"], b["mask"], b["groups"], b["values"]),
        strict=True,
    ):
        assert torch.equal(ppo, dapo)
    both = [policy_loss(c, b["old"], b["new"], b["adv"], b["mask"]) for c in (PPO, DAPO_RELEASED)]
    assert both[0] == both[1]


@pytest.mark.parametrize("kind", ["kl", "abs", "mse", "low_var_kl"])
def test_kinds_of_kl(kind):
    b = batch(8)
    loss, metrics = kl_loss(replace(PPO, kl_coef=0.5, kl_kind=kind), b["new"], b["ref"], b["mask"])
    log_ratio = b["new"] - b["ref"]
    token = {
        "kl": log_ratio,
        "abs": log_ratio.abs(),
        "mse": log_ratio**2 / 2,
        "low_var_kl": torch.expm1(-log_ratio) + log_ratio,
    }[kind]
    mean = float((token * b["mask"]).sum() / b["mask"].sum())
    assert metrics["kl"] == pytest.approx(mean)
    assert float(loss) == pytest.approx(0.5 * mean)


@given(seeds)
@settings(max_examples=30, deadline=None)
def test_the_critics_loss(seed):
    b = batch(seed)
    loss, metrics = value_loss(GRPO, b["values"], b["returns"], b["old"], b["mask"])
    total, count = 0.0, 0
    rows = zip(*(b[name].tolist() for name in ("values", "returns", "old", "mask")), strict=True)
    for predicted, returned, old, inside in (token for row in rows for token in zip(*row, strict=True)):
        if inside:
            near = min(max(predicted, old - 0.5), old + 0.5)
            total += max((predicted - returned) ** 2, (near - returned) ** 2) / 2
            count += 1
    assert float(loss) == metrics["value_loss"] == pytest.approx(total / count)


@pytest.mark.parametrize("config", ALL, ids=lambda config: f"{config.name}-{config.loss_agg}")
def test_micro_batches_add_up_to_the_mini_batch(config):
    b = batch(11)
    names = ("old", "new", "adv", "mask")
    whole, _ = policy_loss(config, *(b[name] for name in names), NORM)
    shared = Aggregation(batch_tokens=int(b["mask"].sum()), batch_sequences=6, loss_scale_factor=96)
    parts = [policy_loss(config, *(b[name][rows] for name in names), shared)[0] for rows in ([0, 1], [2, 3, 4, 5])]
    torch.testing.assert_close(sum(parts), whole)
    again, _ = policy_loss(config, *(b[name] for name in names), NORM)
    assert torch.equal(again, whole)  # the cached config forgot the divisors


@pytest.mark.parametrize("mode", ["token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm"])
def test_what_dropping_half_the_prompts_does_to_the_loss(mode):
    """Here nothing; in verl's trainer, where padding fills the configured mini-batch, the seq-mean modes shrink."""
    config = replace(PPO, loss_agg=mode)
    b = batch(13)
    half = [b[name][:3] for name in ("old", "new", "adv", "mask")]
    alone, _ = policy_loss(config, *half, NORM)
    padded = [torch.cat([part, torch.zeros_like(part)]) for part in half]
    torch.testing.assert_close(policy_loss(config, *padded, NORM)[0], alone)
    in_verl, _ = policy_loss(config, *padded, Aggregation(batch_sequences=6, loss_scale_factor=96))
    torch.testing.assert_close(in_verl, alone * (1.0 if mode == "token-mean" else 0.5))


def test_what_cannot_be_computed_is_refused():
    b = batch(2)
    with pytest.raises(ValueError, match="explicit loss_scale_factor"):
        policy_loss(DR_GRPO_NORM, b["old"], b["new"], b["adv"], b["mask"])
    with pytest.raises(ValueError, match="critic"):
        advantages(PPO, b["rewards"], b["mask"], b["groups"])
    with pytest.raises(ValueError, match="mask 1"):
        advantages(GRPO, b["rewards"] + 1, b["mask"], b["groups"])
    with pytest.raises(ValueError, match="token_entropy"):
        actor_loss(PPO, b["old"], b["new"], b["adv"], b["mask"])
    with pytest.raises(ValueError, match="ref_logp"):
        actor_loss(replace(PPO, entropy_coef=0, kl_coef=1), b["old"], b["new"], b["adv"], b["mask"])
    for broken in ({"rewards": math.nan}, {"values": math.inf}):
        (name, value), *_ = broken.items()
        tensors = {key: b[key].clone() for key in ("rewards", "values")}
        tensors[name][b["mask"] > 0] = value
        with pytest.raises(RunError) as error:
            advantages(PPO, tensors["rewards"], b["mask"], b["groups"], tensors["values"])
        assert error.value.failure_class == "nan"
    with pytest.raises(RunError, match="fewer than two"):
        advantages(PPO, torch.zeros(1, 2), torch.tensor([[0.0, 1.0]]), [0], torch.zeros(1, 2))
