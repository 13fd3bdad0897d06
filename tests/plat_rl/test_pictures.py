"""Runs on pictures: kills leave no trace, nothing is seen in blank ones, and other pictures are other prompts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from plat.errors import SpecError
from plat.spec.expansion.experiment import build_run
from plat_rl.embedded.base_model.load import build, load_base
from plat_rl.embedded.rollout import Episodes, Sampling, rollout
from plat_rl.embedded.scoring import log_likelihoods, measure
from plat_rl.embedded.train import train
from plat_rl.embedded.transformer import vision
from plat_rl.embedded.transformer.model import extend, unpack
from plat_rl.environments import make_environments
from plat_rl.loop.proxy_scoring import mutual_information
from plat_rl.rl.config import MIConfig
from plat_rl.rl.mutual_information import merge_prompts
from plat_rl.validation import idle_keys

SEES = ("model=qwen2.5-vl-3b", "train.rendering=compact_image")
LONG = ("train.iterations=4", "train.checkpoint_every=2", "eval.every=2", "mi.every=1")


@pytest.fixture(scope="module")
def seeing_cache(compose: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeing")
    build(compose(*SEES).model, folder / "bases")
    return folder


def play(config: Any, cache: Path, groups: int = 4, size: int = 4) -> tuple[Any, Any]:
    """The base model, and a batch that it plays."""
    base = load_base(config, cache)
    count = groups * size
    environments = make_environments(config, "train", count)
    seeds = [seed for seed in range(groups) for _ in range(size)]
    episodes = Episodes(environments, seeds, [0] * count, np.repeat(np.arange(groups), size))
    sampling = Sampling(config.task.turns, config.task.response_tokens, 1.0, config.train.context)
    return base, rollout(unpack(base.shape, base.parameters), base.tokenizer, episodes, sampling, (7,))


@pytest.mark.parametrize(
    "options",
    [
        ("task=sokoban", "algorithm=ppo", "filter=top_p"),
        ("task=frozenlake", "algorithm=grpo", "train.context=full"),
    ],
    ids=["ppo", "grpo, whole history"],
)
def test_a_run_stopped_at_every_step_and_resumed_is_the_same(compose, io_in, seeing_cache, options):
    """Each attempt begins without any picture, as a process that is started after a kill does."""
    config = compose(*SEES, *options, *LONG)
    whole, io = io_in(seeing_cache), io_in(seeing_cache, *range(5))
    assert train(config, whole).kind == "finished"
    stops = 0
    vision._pixels.clear()
    while train(config, io).kind == "interrupted":
        io = io.resumed(io.stop_at)
        stops += 1
        vision._pixels.clear()
    assert stops == 4
    assert io.history() == whole.history() and io.tables == whole.tables and io.final() == whole.final()
    assert ("mi/first_turn/over_blank", 1) in whole.metrics


@pytest.mark.parametrize("context", ["current", "full"])
def test_scores_are_those_of_a_slow_pass_over_each_pair(compose, seeing_cache, context):
    config = compose(*SEES, "task=sokoban", f"train.context={context}")
    base, batch = play(config, seeing_cache)
    weights = unpack(base.shape, base.parameters)
    rows = np.flatnonzero(batch.response_length > 3)[:8]
    lengths = np.full(len(rows), 3)
    prompts = list(dict.fromkeys(batch.prompts[batch.prompt_of_row[row]] for row in rows))
    actual = log_likelihoods(weights, prompts, batch.responses[rows], lengths, 0)
    for i, row in enumerate(rows):
        for m, prompt in enumerate(prompts):
            said = batch.responses[row, :3].tolist()
            with torch.no_grad():
                hidden = extend(weights, None, None, torch.tensor([[*prompt, *said]]))
                logs = F.log_softmax(F.linear(hidden, weights.head)[0, len(prompt) - 1 : -1], -1)
            wanted = float(logs.gather(-1, torch.tensor(said)[:, None]).sum())
            assert float(actual[i, m]) == pytest.approx(wanted, abs=1e-4)


def test_prompts_with_equal_words_and_other_pictures_are_never_merged(compose, seeing_cache):
    config = compose(*SEES, "task=sokoban")
    base, batch = play(config, seeing_cache)
    first = [batch.prompts[batch.prompt_of_row[row]] for row in np.flatnonzero(batch.turn_of_row == 0)]
    assert len({base.tokenizer.decode(list(prompt)) for prompt in first}) == 1
    assert merge_prompts(first).weight.tolist() == [4.0] * 4


def scored(batch: Any, base: Any, **changes: float) -> dict[str, float]:
    weights = unpack(base.shape, base.parameters)
    # the small base closes no reasoning, so the first tokens of a response stand for one
    batch = replace(batch, reasoning_length=np.minimum(batch.response_length, 4))
    return measure(weights, batch, MIConfig(samples=16, **changes), {}, 0, 1.0, np.random.default_rng(0))


def test_what_a_reasoning_takes_from_the_picture_is_its_gain_over_a_blank_one(compose, seeing_cache):
    config = compose(*SEES, "task=sokoban")
    base, batch = play(config, seeing_cache)
    measured = scored(batch, base, trajectory=False)["mi/first_turn/over_blank"]
    weights = unpack(base.shape, base.parameters)
    gains = []
    for row in np.flatnonzero(batch.turn_of_row == 0):
        prompt, length = batch.prompts[batch.prompt_of_row[row]], min(4, batch.response_length[row])
        own = log_likelihoods(weights, [prompt], batch.responses[[row]], np.array([length]), 0)
        grey = log_likelihoods(weights, [vision.blanked(prompt)], batch.responses[[row]], np.array([length]), 0)
        gains.append(float(own - grey) / length)
    assert measured == pytest.approx(np.mean(gains), abs=1e-5) and abs(measured) > 1e-4


def test_nothing_is_seen_in_blank_pictures(compose, io_in, seeing_cache):
    config = compose(*SEES, "task=sokoban", "task.env.blank=true", "mi.probe=64", *LONG)
    io = io_in(seeing_cache)
    train(config, io)
    assert {value for (name, _), value in io.metrics.items() if name == "probe/retrieval_acc"} == {1 / 8}
    base, batch = play(config, seeing_cache)
    metrics = scored(batch, base)
    assert not any(name.startswith("mi/first_turn") for name in metrics)  # there is one prompt, and nothing to tell
    assert metrics.get("mi/trajectory/over_blank", 0.0) == 0.0


def test_a_blank_prompt_is_that_of_the_blank_environment(compose):
    shown, hidden = (
        make_environments(compose(*SEES, "task=sokoban", f"task.env.blank={blank}"), "train", 1)[0]
        for blank in ("false", "true")
    )
    from plat_rl.embedded.transformer.tokenizer import WordTokenizer

    words = WordTokenizer(vision=True)
    assert vision.blanked(tuple(words.prompt(shown.reset(3)))) == tuple(words.prompt(hidden.reset(3)))


def test_a_text_has_no_gain_over_blank_pictures(compose, seeing_cache):
    base, batch = play(compose("model=qwen2.5-vl-3b", "task=sokoban"), seeing_cache)
    assert not any(name.endswith("over_blank") for name in scored(batch, base))


def test_scores_of_pictures_need_no_policy():
    """`over_blank` is exact for a known score: 3 nats for the own picture, 1 for a blank one, over 2 tokens."""
    from types import SimpleNamespace

    batch: Any = SimpleNamespace(
        trajectories=2, reasoning_length=np.array([2, 2]), turn_of_row=np.array([0, 0]),
        trajectory_of_row=np.array([0, 1]), group=np.array([0, 1]),
    )  # fmt: skip

    def score(rows: Any, prompts: list[Any]) -> torch.Tensor:
        return torch.tensor([[-1.0 if prompt == f"board {row}" else -3.0 for prompt in prompts] for row in rows])

    found = mutual_information(
        batch, ["board 0", "board 1"], MIConfig(trajectory=False), {}, np.random.default_rng(0), score, lambda _: "grey"
    )
    assert found["mi/first_turn/over_blank"] == 1.0


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ("task=sokoban", "train.rendering=compact_image"),
            "is a text model, and the rendering compact_image has pictures",
        ),
        ((*SEES, "task=countdown"), "countdown has no compact_image rendering"),
        ((*SEES, "task=sokoban", "train.rendering=chat_image"), "knows only the compact renderings, not chat_image"),
        ((*SEES, "task=sokoban", "model.path=/tmp"), "shows no pictures to a checkpoint"),
        ((*SEES, "task=sokoban", "task.env.sprites=mine"), "sprites"),
        (("task=sokoban", "model.base.version=vl1"), "version vl1 learn from pictures, and qwen2.5-3b is a text model"),
        ((*SEES, "task=sokoban", "model.vision_width=0"), "qwen2.5-vl-3b is a text model"),
        ((*SEES, "task=sokoban", "model.base.version=v2"), "version v2 have seen no picture"),
        (
            ("task=sokoban", "train.pictures=true", "model.vision_width=16"),
            "version v2 have seen no picture, and the rendering compact_image",
        ),
    ],
)
def test_what_cannot_be_shown_is_one_message_before_training(compose, options, says):
    with pytest.raises(SpecError, match=says):
        compose(*options)


@pytest.mark.parametrize(
    ("options", "key", "why"),
    [
        (("task.env.blank=true",), "task.env.blank", "the rendering compact has no pictures"),
        (("task.env.jitter=false",), "task.env.jitter", "the rendering compact has no pictures"),
        (("train.pictures=true", "task.env.sprites=vagen"), "task.env.sprites", "a cell has 8 pixels"),
        (("train.pictures=true", "task.env.blank=true", "task.env.jitter=false"), "task.env.jitter", "are blank"),
    ],
)
def test_options_of_pictures_that_nothing_reads_make_no_other_run(options, key, why):
    run = build_run(["model=qwen2.5-vl-3b", "task=sokoban", *options])
    without = build_run(["model=qwen2.5-vl-3b", "task=sokoban", *[one for one in options if not one.startswith(key)]])
    assert run.id == without.id and run.config == without.config
    option, _, value = next(one for one in options if one.startswith(key)).removeprefix("task.env.").partition("=")
    given = {**run.config, "task": {**run.config["task"], "env": {**run.config["task"]["env"], option: value}}}
    assert why in idle_keys(given)[key]


def test_options_of_pictures_that_are_shown_make_other_runs():
    base = ["model=qwen2.5-vl-3b", "task=sokoban", "train.pictures=true"]
    ids = {build_run([*base, *more]).id for more in ((), ("task.env.blank=true",), ("task.env.jitter=false",))}
    assert len(ids) == 3
