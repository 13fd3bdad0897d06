"""One batch through verl's own training worker and through the embedded trainer's own update: the same gradients.

The batch is a rollout of the embedded trainer in full context: interleaved masks, responses of different lengths. Each
side gets it in its own form: the embedded learner packs the response tokens of a trajectory, verl has the episode as
one sequence with a mask. Advantages are computed on each side from rewards, values and groups. The optimiser is not
stepped; what it would have stepped with is compared.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from plat.rl import algorithms
from plat.rl.filter import StepPlan
from plat.trainer.embedded.adam import Adam
from plat.trainer.embedded.batch import Batch
from plat.trainer.embedded.cross_score import log_likelihoods
from plat.trainer.embedded.learner import Learner
from plat.trainer.embedded.scoring import token_values
from plat.trainer.embedded.transformer import hf
from plat.trainer.embedded.transformer.model import Weights, unpack
from plat.trainer.embedded.transformer.tokenizer import save_word_tokenizer
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.metrics import ACTOR_METRICS, renamed
from plat.trainer.verl.play import token_rewards

pytestmark = pytest.mark.verl

GROUPS, SIZE = 3, 4
WORKER = Path(__file__).parent / "parity_worker.py"
# name -> overrides, kept trajectories, the plan's loss scale and advantage scale, tokens of verl's micro-batches
ALL = list(range(GROUPS * SIZE))
NORMED = "algorithm.loss_agg=seq-mean-token-sum-norm"
CASES: dict[str, tuple[tuple[str, ...], list[int], float, float, int]] = {
    "ppo": (("algorithm=ppo",), ALL, 1.0, 1.0, 100_000),
    "ppo, two prompts kept, loss scaled": (("algorithm=ppo",), ALL[4:], 2 / 3, 1.0, 700),
    "grpo": (("algorithm=grpo",), ALL, 1.0, 1.0, 100_000),
    "grpo, one prompt kept, advantages scaled": (("algorithm=grpo",), ALL[4:8], 1.0, 1 / 3, 500),
    "grpo with a KL term, in micro-batches": (("algorithm=grpo", "algorithm.kl_coef=0.05"), ALL[:8], 0.5, 1.0, 600),
    "dapo": (("algorithm=dapo",), ALL, 1.0, 1.0, 600),
    "drgrpo": (("algorithm=drgrpo",), [*ALL[:4], *ALL[8:]], 2 / 3, 1.0, 600),
    "drgrpo, normed": (("algorithm=drgrpo", NORMED), ALL, 1.0, 1.0, 900),
    "hot sampling": (("algorithm=grpo", "train.temperature=1.3"), ALL, 1.0, 1.0, 100_000),
}  # fmt: skip


class Side:
    """The embedded trainer's side of a case: what its update would step with."""

    def __init__(self, config: VerlRunConfig, shape: Any, flat: torch.Tensor, batch: Batch, plan: StepPlan) -> None:
        self.learner = learner = Learner(config, shape, flat)
        if learner.reference is not None:
            learner.reference = learner.reference + 0.05 * torch.randn_like(learner.reference)
        learner.critic = self._critic(learner.critic)
        self.training = learner._with_targets(batch, plan, 0)
        captured: dict[str, torch.Tensor] = {}
        for name, optimiser in (("actor", learner.actor), ("critic", learner.critic)):
            if optimiser is not None:
                optimiser.step = self._capture(captured, name, optimiser)  # type: ignore[method-assign]
        self.metrics = learner._update_policy(self.training, plan, 0)
        if learner.critic is not None:
            self.metrics |= learner._update_critic(learner.critic, self.training, plan, 0)
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


def rows_of(batch: Batch, side: Side, config: VerlRunConfig, plan: StepPlan) -> dict[str, list[torch.Tensor]]:
    """The trajectories as verl's rows, with advantages computed in their coordinates."""
    flat: dict[str, list[torch.Tensor]] = {}
    layout, targets = side.training.layout, side.training.targets
    starts, mask_rows, ids, firsts = [], [], [], []
    for number in range(batch.trajectories):
        own = np.flatnonzero(batch.trajectory_of_row == number)
        first = batch.prompts[batch.prompt_of_row[own[0]]]
        said: list[int] = []
        for row in own:
            said = list(batch.prompts[batch.prompt_of_row[row]][len(first) :])
            starts.append(len(said))
            said += batch.responses[row, : batch.response_length[row]].tolist()
        mask = torch.zeros(len(said), dtype=torch.int64)
        for row, start in zip(own, starts[-len(own) :], strict=True):
            mask[start : start + batch.response_length[row]] = 1
        ids.append(torch.tensor([*first, *said]))
        firsts.append(len(first))
        mask_rows.append(mask)

    def spread(packed: torch.Tensor) -> list[torch.Tensor]:
        """(N, T) values of response tokens, put where the tokens lie in verl's rows."""
        spreads = []
        for number, mask in enumerate(mask_rows):
            values = torch.zeros(len(mask), dtype=packed.dtype)
            values[mask.bool()] = packed[number, : int(mask.sum())].detach()
            spreads.append(values)
        return spreads

    old = layout.pack(torch.from_numpy(batch.log_probs[batch.token_mask]))
    width = max(map(len, mask_rows))
    mask = torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in mask_rows]).float()
    played = type("Rewards", (), {
        "trajectories": batch.trajectories, "starts": np.array(starts), "response_length": batch.response_length,
        "trajectory_of_row": batch.trajectory_of_row, "rewards": batch.rewards,
    })()  # fmt: skip
    values = None
    if targets.old_values is not None:
        spread_values = spread(targets.old_values)
        values = torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in spread_values])
        flat["values"] = spread_values
    advantages, returns = algorithms.advantages(
        config.algorithm, token_rewards(played, width), mask, batch.group, values
    )
    lengths = [len(row) for row in mask_rows]
    flat |= {
        "input_ids": ids,
        "position_ids": [torch.arange(len(row)) for row in ids],
        "prompts": [row[:first] for row, first in zip(ids, firsts, strict=True)],
        "responses": [row[first:] for row, first in zip(ids, firsts, strict=True)],
        "response_mask": mask_rows,
        "loss_mask": mask_rows,
        "old_log_probs": spread(old),
        "advantages": [row[:n] * plan.advantage_scale for row, n in zip(advantages, lengths, strict=True)],
        "returns": [row[:n] for row, n in zip(returns, lengths, strict=True)],
    }
    if targets.reference_log_probs is not None:
        flat["ref_log_prob"] = spread(targets.reference_log_probs)
    return flat


@pytest.fixture(scope="module")
def sides(
    make_config: Callable[..., VerlRunConfig],
    play: Callable[..., Batch],
    policy: Any,
    lively_parameters: Any,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[Side, list[dict[str, Any]]]]:
    """Name of the case -> the embedded side, and verl's answers for the actor and, with PPO, the critic."""
    folder = tmp_path_factory.mktemp("parity")
    flat = (
        policy.flat
        + 0.3 * torch.randn(policy.flat.shape, generator=torch.Generator().manual_seed(3)) * policy.flat.std()
    )
    model = folder / "model"
    model.mkdir()
    hf.save(model, policy.shape, flat)
    save_word_tokenizer(model)
    cases, embedded = [], {}
    for name, (overrides, kept, loss_scale, advantage_scale, tokens) in CASES.items():
        config = make_config("task=sokoban", *overrides, "verl.prompt_tokens=128", "verl.observation_tokens=64")
        batch = play(config, groups=GROUPS, size=SIZE, context="full").select(np.array(kept))
        plan = StepPlan(1, loss_scale, advantage_scale, 1.0, len(kept) / (GROUPS * SIZE))
        side = embedded[name] = Side(config, policy.shape, flat, batch, plan)
        rows = rows_of(batch, side, config, plan)
        common = {"config": json.dumps(asdict(config)), "model": str(model), "rows": rows, "scale": loss_scale,
                  "sequences": len(kept), "tokens": tokens, "temperature": config.train.temperature}  # fmt: skip
        cases.append({**common, "role": "actor", "head": None, "name": name})
        if side.learner.critic is not None:
            head = side.learner.critic.parameter[-33:].detach()
            norm = hf.to_state_dict(policy.shape, flat)["model.norm.weight"]
            cases.append({**common, "role": "critic", "head": [(head[:-1] / norm)[None], head[-1:]], "name": name})
    batch = play(make_config("task=sokoban"), groups=GROUPS, size=SIZE, context="full")
    pairs = pairs_of(batch)
    cases.append({"config": cases[0]["config"], "model": str(model), "role": "score", "pairs": pairs, "tokens": 400,
                  "temperature": 0.8, "name": "score"})  # fmt: skip
    torch.save(cases, folder / "cases.pt")
    done = subprocess.run([sys.executable, str(WORKER), str(folder)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    answers = torch.load(folder / "answers.pt", weights_only=False)
    weights = unpack(policy.shape, flat)
    expected = [log_likelihood(weights, *pair) for pair in pairs]
    scored = {"score": (torch.tensor(expected), torch.from_numpy(answers[-1]["scores"]))}
    return scored | {
        name: (side, [answer for case, answer in zip(cases, answers, strict=True) if case["name"] == name])
        for name, side in embedded.items()
    }


def pairs_of(batch: Batch) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Reasonings of a batch under prompts of their own and of other trajectories."""
    pairs = []
    for row in np.flatnonzero(batch.reasoning_length > 0)[:12]:
        reasoning = tuple(batch.responses[row, : batch.reasoning_length[row]].tolist())
        pairs += [(batch.prompts[number], reasoning) for number in (batch.prompt_of_row[row], 0, 1)]
    return pairs


def log_likelihood(weights: Weights, prompt: tuple[int, ...], reasoning: tuple[int, ...]) -> float:
    """The embedded trainer's score of a pair."""
    return float(log_likelihoods(weights, [prompt], np.array([reasoning]), np.array([len(reasoning)]), 0, 0.8)[0, 0])


def test_cross_scoring_is_the_same(sides: Any) -> None:
    expected, scored = sides["score"]
    assert len(expected) > 20 and torch.allclose(scored.float(), expected, rtol=1e-5)


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
