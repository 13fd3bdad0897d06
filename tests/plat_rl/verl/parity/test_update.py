"""One batch through verl's own training worker and through the embedded trainer's own update: the same gradients.

Advantages are computed on each side from rewards, values and groups. The optimiser is not stepped; what it would have
stepped with is compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from plat_rl.embedded.adam import Adam
from plat_rl.embedded.batch import Batch
from plat_rl.embedded.learner import Learner
from plat_rl.embedded.scoring import token_values
from plat_rl.embedded.transformer import hf
from plat_rl.rl.filter.selection import StepPlan
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.update.batches import ACTOR_METRICS, renamed, targets

pytestmark = pytest.mark.verl

GROUPS, SIZE = 3, 4
# name -> overrides, kept trajectories, the plan's loss scale and advantage scale, tokens of verl's micro-batches
ALL = list(range(GROUPS * SIZE))
NORMED, SUMMED = "algorithm.loss_agg=seq-mean-token-sum-norm", "algorithm.loss_agg=seq-mean-token-sum"
WITH_KL = ("algorithm=grpo", "algorithm.kl_coef=0.05")
Case = tuple[tuple[str, ...], list[int], float, float, int]
FULL: dict[str, Case] = {
    "ppo": (("algorithm=ppo",), ALL, 1.0, 1.0, 100_000),
    "ppo, two prompts kept, loss scaled": (("algorithm=ppo",), ALL[4:], 2 / 3, 1.0, 700),
    "grpo": (("algorithm=grpo",), ALL, 1.0, 1.0, 100_000),
    "grpo, one prompt kept, advantages scaled": (("algorithm=grpo",), ALL[4:8], 1.0, 1 / 3, 500),
    "grpo with a KL term, in micro-batches": (WITH_KL, ALL[:8], 0.5, 1.0, 600),
    "dapo": (("algorithm=dapo",), ALL, 1.0, 1.0, 600),
    "drgrpo": (("algorithm=drgrpo",), [*ALL[:4], *ALL[8:]], 2 / 3, 1.0, 600),
    "drgrpo, normed": (("algorithm=drgrpo", NORMED), ALL, 1.0, 1.0, 900),
    "hot sampling": (("algorithm=grpo", "train.temperature=1.3"), ALL, 1.0, 1.0, 100_000),
}  # fmt: skip
# Sequences are shorter here, so micro-batches that cut through trajectories have fewer tokens.
CURRENT: dict[str, Case] = {
    "current: ppo, two prompts kept, loss scaled": (("algorithm=ppo",), ALL[4:], 2 / 3, 1.0, 200),
    "current: grpo": (("algorithm=grpo",), ALL, 1.0, 1.0, 100_000),
    "current: grpo with a KL term, in micro-batches": (WITH_KL, ALL[:8], 0.5, 1.0, 150),
    "current: dapo": (("algorithm=dapo",), ALL, 1.0, 1.0, 300),
    "current: drgrpo": (("algorithm=drgrpo",), [*ALL[:4], *ALL[8:]], 1.0, 2 / 3, 200),
    "current: drgrpo, normed": (("algorithm=drgrpo", NORMED), ALL, 1.0, 1.0, 300),
    "current: grpo, summed": (("algorithm=grpo", SUMMED), ALL, 1.0, 1.0, 300),
}  # fmt: skip
CASES = FULL | CURRENT


class Side:
    """The embedded trainer's side of a case: what its update would step with."""

    def __init__(self, config: VerlRunConfig, shape: Any, flat: torch.Tensor, batch: Batch, plan: StepPlan) -> None:
        self.learner = learner = Learner(config, shape, flat, 0)
        if learner.reference is not None:
            noise = torch.randn(flat.shape, generator=torch.Generator().manual_seed(4))
            learner.reference = learner.reference + 0.05 * noise
        learner.critic = self._critic(learner.critic)
        self.training = learner._with_targets(batch, plan)
        captured: dict[str, torch.Tensor] = {}
        for name, optimiser in (("actor", learner.actor), ("critic", learner.critic)):
            if optimiser is not None:
                optimiser.step = self._capture(captured, name, optimiser)  # type: ignore[method-assign]
        self.metrics = learner._step("actor", learner.actor, learner._policy_loss, self.training, plan)
        if learner.critic is not None:
            self.metrics |= learner._step("critic", learner.critic, learner._value_loss, self.training, plan)
        self.gradients = captured

    @staticmethod
    def _critic(critic: Adam | None) -> Adam | None:
        """A critic whose values are not all zero."""
        if critic is not None:
            with torch.no_grad():
                head = critic.parameter[-33:]
                head += 0.1 * torch.randn(head.shape, generator=torch.Generator().manual_seed(5))
        return critic

    @staticmethod
    def _capture(captured: dict[str, torch.Tensor], name: str, optimiser: Adam) -> Callable[[float], float]:
        def step(lr_scale: float) -> float:
            assert optimiser.parameter.grad is not None
            captured[name] = optimiser.parameter.grad.clone()
            return float(captured[name].norm())

        return step


def rows_of(batch: Batch, layout: Any, side: Side, config: VerlRunConfig, plan: StepPlan) -> dict[str, Any]:
    """The trajectories as verl's rows, with targets computed as the trainer with verl computes them."""
    ours = side.training
    packed_mask = ours.layout.mask.bool()  # (N, T): the response tokens of a trajectory one after the other
    old = torch.from_numpy(batch.log_probs[batch.token_mask])
    rows = layout.rows() | {"old_log_probs": layout.cut(layout.spread(old))}
    values = None
    if ours.targets.old_values is not None:
        values = layout.spread(ours.targets.old_values[packed_mask])
        rows["values"] = layout.cut(values)
    if ours.targets.reference_log_probs is not None:
        rows["ref_log_prob"] = layout.cut(layout.spread(ours.targets.reference_log_probs[packed_mask]))
    computed = targets(config, batch, layout.trajectory_of_sequence, layout.mask, values, plan.advantage_scale)
    return rows | {name: layout.cut(value) for name, value in computed.items()}


@pytest.fixture(scope="module")
def sides(
    make_config: Callable[..., VerlRunConfig],
    play: Callable[..., Batch],
    model: Any,
    layout: Callable[..., Any],
    ask_verl: Callable[..., list[dict[str, Any]]],
    as_json: Callable[[VerlRunConfig], str],
) -> dict[str, tuple[Side, list[dict[str, Any]]]]:
    """Name of the case -> the embedded side, and verl's answers for the actor and, with PPO, the critic."""
    cases, embedded = [], {}
    for name, (overrides, kept, loss_scale, advantage_scale, tokens) in CASES.items():
        context = "current" if name in CURRENT else "full"
        sizes = ("verl.prompt_tokens=128", "verl.observation_tokens=64")
        config = make_config("task=sokoban", f"train.context={context}", *overrides, *sizes)
        batch = play(config, groups=GROUPS, size=SIZE).select(np.array(kept))
        plan = StepPlan(1, loss_scale, advantage_scale)
        side = embedded[name] = Side(config, model.shape, model.flat, batch, plan)
        rows = rows_of(batch, layout(batch, context), side, config, plan)
        common = {"config": as_json(config), "rows": rows, "scale": loss_scale, "sequences": len(kept),
                  "tokens": tokens, "temperature": config.train.temperature, "name": name}  # fmt: skip
        cases.append({**common, "role": "actor", "head": None})
        if side.learner.critic is not None:
            head = side.learner.critic.parameter[-33:].detach()
            norm = hf.to_state_dict(model.shape, model.flat)["model.norm.weight"]
            cases.append({**common, "role": "critic", "head": [(head[:-1] / norm)[None], head[-1:]]})
    answers = ask_verl(cases)
    return {
        name: (side, [answer for case, answer in zip(cases, answers, strict=True) if case["name"] == name])
        for name, side in embedded.items()
    }


def test_trajectories_have_several_turns_and_responses_of_several_lengths(sides: Any) -> None:
    for name in ("ppo", "current: grpo"):
        batch = sides[name][0].training.batch
        assert batch.turn_of_row.max() >= 2 and len(set(batch.response_length.tolist())) > 3
        tokens = batch.per_trajectory(batch.response_length)
        assert tokens.max() > 1.3 * tokens.min(), "else a mean over sequences is that over trajectories"


def compared(gradients: dict[str, torch.Tensor], name: str) -> torch.Tensor:
    """A gradient without the row of `<pad>` in the embedding: what reads that token, a policy that said it, gives it no
    gradient in transformers, where it is the padding index."""
    return gradients[name][1:] if name == "model.embed_tokens.weight" else gradients[name]


def close(ours: torch.Tensor, theirs: torch.Tensor, scale: float) -> None:
    """Equal within 1e-5 of the values, and of the largest gradient of the model."""
    assert torch.allclose(ours, theirs, rtol=1e-5, atol=1e-5 * scale), float((ours - theirs).abs().max())


@pytest.mark.parametrize("name", CASES)
def test_the_policys_step_is_the_same(sides: Any, policy: Any, name: str) -> None:
    side, answers = sides[name]
    ours, theirs = hf.to_state_dict(policy.shape, side.gradients["actor"]), answers[0]["gradients"]
    largest = float(side.gradients["actor"].abs().max())
    assert largest > 1e-4 and theirs.keys() <= ours.keys() and len(theirs) >= 12
    for parameter in theirs:
        close(compared(ours, parameter), compared(theirs, parameter), largest)


@pytest.mark.parametrize("name", CASES)
def test_the_policys_metrics_are_the_same(sides: Any, name: str) -> None:
    side, answers = sides[name]
    measured = renamed(answers[0]["metrics"], ACTOR_METRICS)
    expected = side.metrics
    # The others are means over micro-batches in verl, and over tokens in the embedded trainer.
    for metric in ("actor/pg_loss", "actor/entropy", "actor/kl"):
        assert (metric in measured) == (metric in expected), metric
        if metric in expected:
            assert measured[metric] == pytest.approx(expected[metric], rel=1e-5, abs=1e-7), metric


@pytest.mark.parametrize("name", [name for name in CASES if name.startswith("ppo")])
def test_the_critics_step_is_the_same(sides: Any, policy: Any, name: str) -> None:
    side, answers = sides[name]
    gradient = side.gradients["critic"]
    ours, theirs = hf.to_state_dict(policy.shape, gradient[:-33]), answers[1]["gradients"]
    largest = float(gradient.abs().max())
    common = [parameter for parameter in theirs if parameter in ours and parameter != "model.norm.weight"]
    assert len(common) >= 12 and largest > 1e-4
    for parameter in common:
        close(compared(ours, parameter), compared(theirs, parameter), largest)
    norm = hf.to_state_dict(policy.shape, side.learner.actor.parameter.detach())["model.norm.weight"]
    # d loss / d head: verl's head reads the state times the final norm's weight.
    close(gradient[-33:-1] * norm, theirs["score.weight"][0], largest)
    close(gradient[-1:], theirs["score.bias"], largest)


def test_values_of_the_critic_are_where_the_embedded_trainer_has_them(sides: Any) -> None:
    side, _ = sides["ppo"]
    critic = side.learner.critic
    assert critic is not None and side.training.targets.old_values is not None
    values = token_values(side.learner.shape, critic.parameter.detach(), side.training.batch, 0)
    assert torch.allclose(side.training.layout.pack(values), side.training.targets.old_values)
