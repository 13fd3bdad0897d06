"""How things are called in print: tasks, filters, parameter counts, and which model really ran."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from plat_analysis.data.runs import RunView
from plat_analysis.text import printable

NAMES = {
    "sokoban": "Sokoban",
    "frozenlake": "FrozenLake",
    "metamathqa": "MetaMathQA",
    "countdown": "Countdown",
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
    "rollout/return_mean": "Mean return of the rollouts",
}

_NUMBER = re.compile(r"[+-]?\d+(\.\d*)?(e[+-]?\d+)?", re.IGNORECASE)

MEASURES = {
    "peak": "success at the peak",
    "heldout": "held-out success of the peak",
    "final": "success of the last checkpoint",
    "base": "success of the base model",
    "success": "validation success",
}


def measure_label(name: str) -> str:
    """The printed name of a measure: a success rate by its name, a metric as axes of figures have it."""
    return MEASURES.get(name) or label(name)


def label(name: str) -> str:
    """The printed name of an axis value or metric; names of other papers stay as they are written."""
    return NAMES.get(name, name)


def place_label(axes: Sequence[str], place: str) -> list[str]:
    """The printed names of the values that a place has on these axes: `["GRPO", "build 0"]` for `GRPO · 0`.

    A number says nothing alone: it gets the name of its axis, without the sections that the key is in.
    """
    values = place.split(" · ")
    if len(values) != len(axes):
        return [label(place)]
    return [_value_label(axis, value) for axis, value in zip(axes, values, strict=True)]


def _value_label(axis: str, value: str) -> str:
    if not _NUMBER.fullmatch(value):
        return label(value)
    if axis == "model.base.seed":
        return f"build {value}"
    section, _, name = axis.rpartition(".")
    return f"{axis if section and name == 'value' else name} = {value}"  # `value` alone would name nothing


def count(parameters: float) -> str:
    """105344 -> `105k`."""
    for size, letter in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if parameters >= size:
            return f"{parameters / size:.3g}{letter}"
    return f"{parameters:.0f}"


def is_stand_in(run: RunView) -> bool:
    """Whether a small model trained from scratch ran in the place of the paper's (no checkpoint was named)."""
    model = run.run.config.get("model")
    return isinstance(model, dict) and "shape" in model and not model.get("path")


def model_that_ran(runs: Iterable[RunView]) -> str:
    """Which model really ran: `stand-in, 105k`, a checkpoint's name, or "" when the store does not say."""
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
