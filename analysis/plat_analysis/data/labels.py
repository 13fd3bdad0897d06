"""Printed names of tasks, filters, axes, measures and parameter counts, and of the model that ran."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from plat_analysis.data.results import RunView
from plat_analysis.shown_text import printable

NAMES = {
    "sokoban": "Sokoban",
    "frozenlake": "FrozenLake",
    "metamathqa": "MetaMathQA",
    "countdown": "Countdown",
    "searchqa": "SearchQA",
    "webshop": "WebShop",
    "deepcoder": "DeepCoder",
    "bandit": "bandit",
    "reasoning_gym": "reasoning-gym",
    "none": "no filter",
    "top_p": "Top-p",
    "top_p_softmax": "Top-p (softmax)",
    "top_k": "Top-k",
    "average": "Average",
    "val/success": "Validation success",
    "mi/first_turn/retrieval_acc": "Retrieval accuracy",
    "mi/trajectory/retrieval_acc": "Retrieval accuracy, trajectory",
    "actor/entropy": "Policy entropy (nats per token)",
    "mi/first_turn/h_z_given_x": "Reasoning entropy H(Z|X)",
    "rollout/reasoning_parses": "Reasonings that parse",
    "probe/retrieval_acc": "Retrieval accuracy of fresh reasonings",
    "val/moves_per_turn": "Moves per turn",
    "rollout/format_valid": "Responses in the right format",
    "rollout/reward_var": "Reward variance",
    "mi/trajectory/mi_est": "MI-Est, trajectory (nats per token)",
    "mi/trajectory/h_z_given_x": "H(Z|X), trajectory (nats per token)",
    "rollout/rv_std_over_mean": "Std/Mean of the prompts' reward spread",
    "rollout/return_mean": "Mean return of the rollouts",
}

AXES = {
    "model.base.seed": "build",
    "algorithm.kl_coef": "KL coefficient",
    "algorithm.entropy_coef": "entropy coefficient",
    "algorithm.std_norm": "division by the spread of rewards",
    "filter.value": "filter value",
    "train.lr": "learning rate",
    "train.iterations": "training iterations",
    "task.token_cost": "cost of a token",
    "task.slip": "slip rate",
    "slip": "slip rate, %",
}

MEASURES = {
    "peak": "success at the peak",
    "heldout": "held-out success of the peak",
    "final": "success of the last checkpoint",
    "base": "success of the base model",
    "success": "validation success",
}


def measure_label(name: str) -> str:
    """Return the printed name of a measure: `success at the peak` for `peak`; for any other name, as `label` does."""
    return MEASURES.get(name) or label(name)


def axis_label(name: str) -> str:
    """Return the printed name of an axis of a matrix: `KL coefficient` for `algorithm.kl_coef`.

    An unknown axis gets the last part of its name, with spaces: `group size` for `rollout.group_size`.
    """
    return AXES.get(name) or name.rpartition(".")[2].replace("_", " ")


def value_label(axis: str, value: str) -> str:
    """Return the printed name of an axis value: `label(value)`, or the axis and the value for a number: `build 0`.

    Only digits with at most one point count as a number here, so `-1` and `1e-06` stay alone.
    """
    return f"{axis_label(axis)} {value}" if value.replace(".", "", 1).isdecimal() else label(value)


def label(name: str) -> str:
    """Return the printed name of an axis value or metric; unknown names stay as they are."""
    return NAMES.get(name, name)


def count(parameters: float) -> str:
    """Return a parameter count in print, to three digits: `105k` for 105344."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if float(f"{parameters / size:.3g}") >= 1:  # 999,999 is 1M
            return f"{parameters / size:.3g}{letter}"
    return f"{parameters:.0f}"


def is_stand_in(run: RunView) -> bool:
    """Return True if a small model trained from scratch ran: the config has `model.shape` and no `model.path`."""
    return stands_in(run.run.config)


def stands_in(config: Mapping[str, Any]) -> bool:
    """Return True if a run with this config trains a small model from scratch in the place of another."""
    model = config.get("model")
    return isinstance(model, dict) and "shape" in model and not model.get("path")


def model_that_ran(runs: Iterable[RunView]) -> str:
    """Return the model that ran: `stand-in, 105k`, a checkpoint's name, or "" if the store has no name of one.

    Different models are joined by ` / `. If the size of some is known, only these are named.
    """
    names: dict[str, None] = {}
    for run in runs:
        parameters = run.number_tag("plat.summary.parameters")
        size = count(parameters) if parameters else ""
        if is_stand_in(run):
            names["stand-in" + (f", {size}" if size else "")] = None
        elif really := run.tag("plat.summary.model_really"):
            names[really.rstrip("/").rsplit("/", 1)[-1] + (f", {size}" if size else "")] = None
    sized = [name for name in names if "," in name]
    return printable(" / ".join(sized or names))
