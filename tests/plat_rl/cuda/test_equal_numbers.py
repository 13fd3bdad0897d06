"""The device computes the numbers of the CPU, in float32, within the tolerances below.

Every number is computed on both from the same parameters and from one batch, which the CPU has played. The largest
differences are recorded as properties of the tests (`--junitxml`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from comparing import Comparison

from plat_rl.embedded import scoring
from plat_rl.embedded.adam import Adam
from plat_rl.embedded.base_model.load import load_base
from plat_rl.embedded.batch import Batch
from plat_rl.embedded.learner import Learner
from plat_rl.embedded.probe import Probe
from plat_rl.embedded.rollout import Episodes, Sampling, rollout
from plat_rl.embedded.scoring import hidden_states, set_up, token_log_probs, token_values
from plat_rl.embedded.train import Collector, train
from plat_rl.embedded.transformer.model import unpack
from plat_rl.environments import make_environments
from plat_rl.loop.prompt_selection import filter_batch
from plat_rl.rl.filter.rule import RULES
from plat_rl.rl.filter.selection import StepPlan
from plat_rl.run_config import RunConfig

# torch warns of operations without a deterministic form; test_kill_and_resume.py judges these.
pytestmark = [pytest.mark.cuda, pytest.mark.filterwarnings("default::UserWarning")]

# float32 has steps of 6e-8 relative to a number. Scores are sums of 50 products and more, of size 10, in another order
# on each device: 1e-6 apart, after two layers 1e-5. With TF32, whose steps are 5e-4, they would be 1e-2 apart.
LOG_PROB = 5e-5  # nats of a token; also for entropies and the critic's values, which come from the same hidden states
LIKELIHOOD = 5e-4  # nats of a reasoning, a sum over at most 24 tokens
LOSS = 1e-4  # a mean over tokens of advantages (of size 1) times ratios, which are as exact as log-probabilities
GRADIENT = 1e-3  # of its norm: the gradient of a mean loses digits where the terms of the tokens cancel
ADVANTAGE = 5e-4  # in float64 from rewards alone; with a critic, from values divided by their deviation
STEP = 1e-5  # of the learning rate: both optimisers get the same gradient, and round a few operations differently
MEASURE = 2e-3  # of the mi/ metrics, of which z-scores divide a difference by a deviation of perhaps 0.1
ALGORITHMS = ("ppo", "grpo", "dapo", "drgrpo")
SIZES = ("train.prompts=6", "train.group_size=4", "task.reward_noise=0.3", "mi.probe=16", "mi.samples=16")


@dataclass
class Sides:
    """The same parameters on the CPU and on the device, and a batch of the CPU's."""

    cpu: RunConfig
    device: RunConfig
    folder: Path

    @property
    def configs(self) -> tuple[RunConfig, RunConfig]:
        return self.device, self.cpu

    @cached_property
    def bases(self) -> list[Any]:
        return [load_base(config, self.folder) for config in self.configs]

    @cached_property
    def tokenizer(self) -> Any:
        return self.bases[1].tokenizer

    @cached_property
    def weights(self) -> list[Any]:
        return [unpack(base.shape, base.parameters) for base in self.bases]

    @cached_property
    def batch(self) -> Batch:
        return Collector(self.cpu, self.tokenizer).rollout(self.weights[1], 1)

    def learners(self) -> list[Learner]:
        """Learners in the middle of training: the policy is not the reference any more, the critic has a head."""
        learners = []
        for config, base in zip(self.configs, self.bases, strict=True):
            learner = Learner(config, base.shape, base.parameters, self.tokenizer.pad)
            noise = torch.Generator().manual_seed(1)
            with torch.no_grad():
                for part in filter(None, (learner.actor, learner.critic)):
                    moved = 0.03 * torch.randn(part.parameter.shape, generator=noise)
                    part.parameter += moved.to(part.parameter.device)
            learners.append(learner)
        return learners


@pytest.fixture(scope="module", autouse=True)
def mode(device: str) -> Iterator[None]:
    """The mode in which a run computes on the device, and what was before."""
    before = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
    set_up(RunConfig(device=device, threads=1))
    yield
    torch.use_deterministic_algorithms(before[0], warn_only=before[1])


@pytest.fixture(scope="module")
def sides_of(
    device: str, configure: Callable[..., RunConfig], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Sides]:
    def make(name: str, *overrides: str) -> Sides:
        configs = (configure(name, *SIZES, *overrides, f"device={where}") for where in ("cpu", device))
        return Sides(*configs, tmp_path_factory.mktemp("cache"))

    return make


@pytest.fixture(scope="module", params=["qwen2.5-like", "llama-like"])
def sides(request: pytest.FixtureRequest, sides_of: Callable[..., Sides]) -> Sides:
    return sides_of(request.param)


@pytest.fixture
def compare(record_property: Callable[[str, Any], None]) -> Comparison:
    return Comparison(record_property)


def test_products_of_float32_have_its_precision(device: str, compare: Comparison) -> None:
    assert torch.get_float32_matmul_precision() == "highest"
    assert not torch.backends.cuda.matmul.allow_tf32
    left, right = (torch.randn(256, 256, generator=torch.Generator().manual_seed(seed)) for seed in (0, 1))
    exact = left.double() @ right.double()  # of size 16; with TF32 the product is 1e-2 off
    compare.close("product of float32", left.to(device) @ right.to(device), exact, 2e-4)
    compare.settle()


def test_log_probabilities_entropies_and_values(sides: Sides, compare: Comparison) -> None:
    pad, temperature = sides.tokenizer.pad, sides.cpu.train.temperature
    with torch.no_grad():
        (mine, my_entropies), (cpu, entropies) = (
            token_log_probs(weights, sides.batch, pad, temperature) for weights in sides.weights
        )
        values = []
        for base in sides.bases:
            head = 0.1 * torch.randn(base.shape.width + 1, generator=torch.Generator().manual_seed(2))
            critic = torch.cat((base.parameters, head.to(base.parameters.device)))
            values.append(token_values(base.shape, critic, sides.batch, pad))
    compare.close("log-probabilities", mine, cpu, LOG_PROB)
    compare.close("entropies", my_entropies, entropies, LOG_PROB)
    compare.close("values", *values, LOG_PROB)
    compare.close("sampled log-probabilities", cpu, sides.batch.log_probs[sides.batch.token_mask], LOG_PROB)
    compare.settle()


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("name", ["qwen2.5-like", "llama-like"])
def test_losses_and_their_gradients(
    sides_of: Callable[..., Sides], name: str, algorithm: str, compare: Comparison
) -> None:
    sides = sides_of(name, f"algorithm={algorithm}", "algorithm.kl_coef=0.05")
    learners = sides.learners()
    batches = [learner._with_targets(sides.batch, StepPlan(updates=1)) for learner in learners]
    compare.close("advantages", *(batch.targets.advantages for batch in batches), ADVANTAGE)
    parts = [("policy", "actor", "_policy_loss")]
    if algorithm == "ppo":
        parts.append(("value", "critic", "_value_loss"))
    for what, part, loss_of in parts:
        losses = []
        for learner, batch in zip(learners, batches, strict=True):
            loss, metrics = getattr(learner, loss_of)(batch, learner._divisors(batch))
            loss.backward()
            losses.append((loss.detach(), metrics))
        compare.close(f"{what} loss", losses[0][0], losses[1][0], LOSS, scale=max(1.0, abs(float(losses[1][0]))))
        compare.metrics(f"{what} metrics", losses[0][1], losses[1][1], LOSS)
        compare.in_norm(f"{what} gradient", *(getattr(each, part).parameter.grad for each in learners), GRADIENT)
    compare.settle()


def test_an_optimiser_step(sides: Sides, device: str, compare: Comparison) -> None:
    """Two steps with given gradients: the first moments and the bias correction differ between them."""
    rate, optimisers = 1e-3, []
    for base in sides.bases:
        optimiser = Adam(base.parameters.clone(), rate, (0.9, 0.999), 0.01, 1.0)
        for seed in (3, 4):
            gradient = torch.randn(base.parameters.shape, generator=torch.Generator().manual_seed(seed))
            optimiser.parameter.grad = gradient.to(base.parameters.device)
            optimiser.step()
        optimisers.append(optimiser)
    parameters = [optimiser.parameter for optimiser in optimisers]
    largest = float(sides.bases[1].parameters.abs().max())
    compare.close("parameters", *parameters, STEP + 1.2e-7 * largest / rate, scale=rate)  # and their own rounding
    compare.metrics("moments", *(
        {key: float(value.double().norm()) for key, value in each.state("actor").items()} for each in optimisers
    ), 1e-5)  # fmt: skip
    compare.settle()


def test_greedy_generation(sides: Sides, compare: Comparison, record_property: Callable[[str, Any], None]) -> None:
    """Each token of the device's is, by the CPU's scores, as good as the best."""
    played = []
    for config, weights in zip(sides.configs, sides.weights, strict=True):
        sampling = Sampling(config.task.turns, config.task.response_tokens, 0.0)
        episodes = Episodes(make_environments(config, "train", 8), range(8), [0] * 8, np.arange(8))
        played.append(rollout(weights, sides.tokenizer, episodes, sampling, ("greedy", 1)))
    mine, cpu = played
    equal = sum(a.tolist() == b.tolist() for a, b in zip(mine.responses, cpu.responses, strict=False))
    record_property("equal greedy responses", f"{equal} of {len(cpu.responses)}")
    with torch.no_grad():
        scores = F.linear(hidden_states(sides.weights[1], mine, sides.tokenizer.pad), sides.weights[1].head)
    chosen = scores.gather(1, torch.from_numpy(mine.responses[mine.token_mask])[:, None])[:, 0]
    compare.close("scores of greedy tokens", chosen, scores.max(1).values, LOG_PROB)
    compare.settle()


def test_sampled_tokens(sides: Sides, record_property: Callable[[str, Any], None]) -> None:
    """A uniform number decides a token; only one within rounding of a boundary may decide otherwise."""
    mine = Collector(sides.device, sides.tokenizer).rollout(sides.weights[0], 1)
    pairs = zip(mine.responses, sides.batch.responses, strict=False)
    equal = sum(a[: len(b)].tolist() == b[: len(a)].tolist() for a, b in pairs)
    record_property("equal sampled responses", f"{equal} of {len(sides.batch.responses)}")
    assert equal >= 0.8 * len(sides.batch.responses)


def test_cross_scores_and_their_metrics(sides: Sides, compare: Comparison) -> None:
    batch, config = sides.batch, sides.cpu
    pad, temperature = sides.tokenizer.pad, config.train.temperature
    closed = np.flatnonzero(batch.reasoning_length > 0)
    assert len(closed) > 4
    compare.close("log-likelihoods", *(
        scoring.log_likelihoods(
            weights, batch.prompts, batch.responses[closed], batch.reasoning_length[closed], pad, temperature
        )
        for weights in sides.weights
    ), LIKELIHOOD)  # fmt: skip
    metrics = [
        scoring.measure(weights, batch, config.mi, {}, pad, temperature, np.random.default_rng(0))
        for weights in sides.weights
    ]
    assert metrics[1]
    compare.metrics("mi", *metrics, MEASURE)
    compare.settle()


def test_probe_scores(sides: Sides, compare: Comparison) -> None:
    probe = Probe(sides.cpu, sides.tokenizer, set())
    reasonings = probe.draw(sides.weights[1], 0)
    mine, cpu = (probe.score(weights, reasonings) for weights in sides.weights)
    compare.close("h_z_given_x", mine.h_z_given_x, cpu.h_z_given_x, LOG_PROB)
    compare.equal("retrieved", mine.hits.tolist(), cpu.hits.tolist())
    compare.metrics("probe", mine.metrics(), cpu.metrics(), LOG_PROB)
    compare.settle()


@pytest.mark.parametrize("metric", ["reward_variance", "entropy", "entropy_variance"])
def test_every_filter_decides_alike(sides: Sides, metric: str, compare: Comparison) -> None:
    """From the returns, and from entropies that each device has computed."""
    batches = []
    for weights in sides.weights:
        entropies = np.zeros_like(sides.batch.entropies)
        with torch.no_grad():
            tokens = token_log_probs(weights, sides.batch, sides.tokenizer.pad, sides.cpu.train.temperature)[1]
        entropies[sides.batch.token_mask] = tokens.cpu().numpy()
        batches.append(replace(sides.batch, entropies=entropies))
    size = sides.cpu.train.group_size
    for rule in RULES:
        filtering = replace(sides.cpu.filter, rule=rule, metric=metric, value=2 if rule == "top_k_abs" else 0.6)
        decisions = [filter_batch(batch, filtering, size, np.random.default_rng(5)) for batch in batches]
        compare.equal(f"kept by {rule}", *(kept.tolist() for _, kept in decisions))
        compare.metrics(f"metrics of {rule}", *(selection.metrics() for selection, _ in decisions), LOG_PROB)
    compare.settle()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("qwen2.5-like", ("algorithm=ppo",)),
        ("llama-like", ("algorithm=grpo", "algorithm.kl_coef=0.01", "filter=top_p")),
        ("qwen2.5-like", ("algorithm=dapo", "train.group_size=2")),
    ],
    ids=["ppo", "grpo", "dapo"],
)
def test_whole_iterations_are_finite_and_learn(
    device: str,
    configure: Callable[..., RunConfig],
    io_in: Callable[..., Any],
    tmp_path: Path,
    name: str,
    options: tuple[str, ...],
    dtype: str,
    record_property: Callable[[str, Any], None],
) -> None:
    has_gpu = device == "cuda" and torch.cuda.is_available()
    if dtype == "bfloat16" and has_gpu and not torch.cuda.is_bf16_supported(including_emulation=False):
        pytest.skip(f"{torch.cuda.get_device_name()} has no bfloat16")
    config = configure(name, *SIZES, *options, "train.iterations=2", f"dtype={dtype}", f"device={device}")
    io = io_in(tmp_path)
    assert train(config, io).kind == "finished"
    numbers = {
        key: value for key, value in io.metrics.items() if key[0].startswith(("actor/", "critic/", "mi/", "val/"))
    }
    assert {step for _, step in numbers} == {0, 1, 2}
    assert all(np.isfinite(value) for value in numbers.values()), numbers
    before, after = (io.checkpoints[step][0].tensors["actor.parameters"] for step in (0, 2))
    assert before.dtype == getattr(torch, dtype) and bool(torch.isfinite(after).all())
    changed = float((before != after).double().mean())
    record_property("share of changed weights", changed)
    assert changed > 0.1
    if has_gpu:
        record_property("GPU", torch.cuda.get_device_name())
        record_property("peak MiB", torch.cuda.max_memory_allocated() / 2**20)
