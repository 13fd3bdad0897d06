"""Declare which config keys have an effect only under a condition; warnings and run ids use this table.

A filter rule declares its keys itself (`plat_rl.rl.filter.rule`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

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
