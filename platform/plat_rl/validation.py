"""Combinations of settings that no built-in trainer can run (light: imports nothing heavy)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from plat.errors import SpecError
from plat.units import counted
from plat_envs.api import PICTURE_RENDERINGS
from plat_rl.embedded.base_model.base_record import check_task_of_base, sees_pictures
from plat_rl.rl.config import PROBE_BLOCK, GradientConfig
from plat_rl.rl.filter.rule import OPTIONS, check_options, read_keys
from plat_rl.run_config import RunConfig

AnyConfig = TypeVar("AnyConfig", bound=RunConfig)

# Declare which config keys have an effect only under a condition; warnings and run ids use this table.
#
# A filter rule declares its keys itself (`plat_rl.rl.filter.rule`).

Config = Mapping[str, Any]  # a plain config, as in config.yaml


def _compares_groups(config: Config) -> bool:
    return bool(config["algorithm"]["advantage"] == "grpo")


# Keys, the configs in which they are read, and why they are not read in other configs. {name}: the algorithm's name.
CONDITIONAL: tuple[tuple[tuple[str, ...], Callable[[Config], bool], str], ...] = (
    (
        ("train.critic_lr", "train.critic_warmup", "algorithm.value_clip", "algorithm.lam", "algorithm.gamma"),
        lambda config: config["algorithm"]["advantage"] == "gae",
        "the algorithm {name} has no critic",
    ),
    (("algorithm.norm_by_std",), _compares_groups, "the algorithm {name} does not compare the trajectories of a group"),
    (
        ("algorithm.std_floor",),
        lambda config: _compares_groups(config) and config["algorithm"]["norm_by_std"],
        "the algorithm {name} does not divide by a standard deviation",
    ),
    (
        ("algorithm.max_refills",),
        lambda config: config["algorithm"]["dynamic_sampling"],
        "without algorithm.dynamic_sampling=true there are no refills",
    ),
    (
        ("gradient.halves",),
        lambda config: config["gradient"]["every"] or config["gradient"]["times"],
        "the gradient is not probed: gradient.every and gradient.times are 0",
    ),
    (
        ("mi.turns",),
        lambda config: config["mi"]["every"],
        "the proxies of mutual information are not measured: mi.every is 0",
    ),
    (("filter.scale_power",), lambda config: config["filter"]["scale"] != "none", "filter.scale is none"),
)


def unread(config: Config) -> dict[str, str]:
    """Return key -> reason for the keys of CONDITIONAL that have no effect in a config."""
    name = config["algorithm"]["name"]
    return {key: why.format(name=name) for keys, is_read, why in CONDITIONAL if not is_read(config) for key in keys}


def idle_keys(config: Mapping[str, Any]) -> dict[str, str]:
    """Return key -> reason for the keys that have no effect in a plain config of a built-in trainer."""
    chosen = config["filter"]
    why = "there is no filter" if chosen["rule"] == "none" else f"the filter rule {chosen['rule']} does not use it"
    idle = OPTIONS - read_keys(chosen["rule"], chosen["kept"])
    return unread(config) | {f"filter.{key}": why for key in idle} | _idle_pictures(config)


def _idle_pictures(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the options of pictures (`plat_envs.games.boards`) that are not read, with the reason."""
    train, options = config.get("train", {}), config.get("task", {}).get("env", {})
    rendering = train.get("rendering", "compact")
    idle = {}
    if not (rendering.endswith("_image") or train.get("pictures")):
        idle = dict.fromkeys(("blank", "jitter", "sprites"), f"the rendering {rendering} has no pictures")
    else:
        if rendering.startswith("compact"):
            idle["sprites"] = "in the rendering compact_image a cell has 8 pixels"
        if options.get("blank"):
            idle["jitter"] = "the pictures are blank"
    return {f"task.env.{name}": why for name, why in idle.items() if name in options}


def check_stand_in(config: RunConfig) -> None:
    """Raise SpecError if `model.shape` makes no transformer, or the base version is unknown or without the task.

    The base version is not read with `model.path`.
    """
    shape = config.model.shape
    if config.model.path is None:
        check_task_of_base(config.task.name, config.model.base.version)
        _check_base_of_pictures(config)
    if shape.width % shape.heads or (shape.width // shape.heads) % 2:
        raise SpecError(
            f"width {shape.width} cannot be split into {shape.heads} heads of even size",
            where="model.shape",
            fix="make width a multiple of 2 x heads",
        )
    if shape.heads % shape.kv_heads:
        raise SpecError(
            f"{shape.heads} heads cannot share {shape.kv_heads} key-value heads",
            where="model.shape.kv_heads",
            fix="use a divisor of heads",
        )


def _check_base_of_pictures(config: RunConfig) -> None:
    """Raise SpecError if a text model would learn from pictures, or a base has seen none and the run shows some."""
    model = config.model
    version = model.base.version
    if sees_pictures(version) and not model.vision_width:
        raise SpecError(
            f"base models of version {version} learn from pictures, and {model.name} is a text model",
            where="model.base.version",
            fix="model=qwen2.5-vl-3b with its model.vision_width, or model.base.version=v2",
        )
    if config.train.rendering in PICTURE_RENDERINGS and model.vision_width and not sees_pictures(version):
        raise SpecError(
            f"base models of version {version} have seen no picture, and the rendering {config.train.rendering} has "
            "pictures",
            where="model.base.version",
            fix="model=qwen2.5-vl-3b with its model.base.version",
        )


def with_pictures(config: AnyConfig) -> AnyConfig:
    """Return the config with `train.pictures` and `train.rendering` saying the same, so that one run has one config."""
    rendering, asked = config.train.rendering, config.train.pictures
    named = f"{rendering}_image" if asked and not rendering.endswith("_image") else rendering
    has = named.endswith("_image")
    if (named, has) == (rendering, asked):
        return config
    return replace(config, train=replace(config.train, pictures=has, rendering=named))


def check_rendering(config: RunConfig) -> None:
    """Raise SpecError if a stand-in cannot read the rendering, or pictures go to a checkpoint.

    The embedded trainer trains checkpoints on text alone.
    """
    rendering, model = config.train.rendering, config.model
    if model.path is not None:
        if rendering.endswith("_image"):
            raise SpecError(
                f"the trainer embedded shows no pictures to a checkpoint (rendering {rendering})",
                where="train.rendering",
                fix="trainer=verl, or a stand-in that sees: model=qwen2.5-vl-3b train.rendering=compact_image",
            )
        return
    if rendering not in ("compact", "compact_image"):
        raise SpecError(
            f"a stand-in model knows only the compact renderings, not {rendering}",
            where="train.rendering",
            fix=f"train.rendering={rendering.replace('chat', 'compact')}, or name a real checkpoint with model.path"
            + " trainer=verl" * rendering.endswith("_image"),
        )
    if rendering == "compact_image" and not model.vision_width:
        raise SpecError(
            f"{model.name} is a text model, and the rendering compact_image has pictures",
            where="train.rendering",
            fix="model=qwen2.5-vl-3b, or train.rendering=compact train.pictures=false",
        )


def check_iteration(config: RunConfig) -> None:
    """Raise SpecError if an iteration of these settings is undefined: mini-batches, groups, filter, probes."""
    train = config.train
    if train.mini_batches > train.prompts * train.group_size:
        raise SpecError(
            f"{train.mini_batches} mini-batches of {train.prompts * train.group_size} trajectories",
            where="train.mini_batches",
            fix="use at most prompts x group_size",
        )
    spread = config.filter.metric.endswith(("_std", "_variance"))
    spread = spread or config.filter.kept == "as_top_p"
    if config.filter.rule != "none" and spread and train.group_size <= config.filter.ddof:
        raise SpecError(
            f"a spread over {counted(train.group_size, 'rollout')} is undefined with ddof {config.filter.ddof}",
            where="train.group_size",
            fix="use a larger group, or filter=none",
        )
    check_options(config.filter)
    if config.mi.probe % PROBE_BLOCK:
        raise SpecError(
            f"a probe of {config.mi.probe} reasonings cannot be split into blocks of {PROBE_BLOCK}",
            where="mi.probe",
            fix=f"use a multiple of {PROBE_BLOCK}; 0 switches the probe off",
        )
    _check_gradient(config.gradient)
    if config.algorithm.advantage == "grpo" and train.group_size < 2:
        raise SpecError("a group advantage needs at least 2 rollouts", where="train.group_size", fix="use 2 or more")


def _check_gradient(config: GradientConfig) -> None:
    """Raise SpecError if the gradient probe cannot make its buckets or halves."""
    if not config.every and not config.times:
        return
    if config.prompts < config.buckets:
        raise SpecError(
            f"{config.prompts} prompts cannot be split into {config.buckets} buckets",
            where="gradient.prompts",
            fix="use at least as many prompts as buckets; gradient.every=0 and gradient.times=0 switch the probe off",
        )
    if config.halves and config.group_size < 4:
        raise SpecError(
            f"halves of {config.group_size} trajectories have no group advantages",
            where="gradient.group_size",
            fix="use 4 or more, or gradient.halves=false",
        )
