"""Check what the `step` of an environment returned against the contract of `plat_envs.api.Environment`."""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral
from typing import Any

import numpy as np

from plat_envs.sandbox.hack import KINDS


def fault_of_step(given: Any) -> tuple[str, str] | None:
    """Return what is wrong in what `step` returned, and what to return in its place; None if nothing is.

    The observation is not looked at.
    """
    if not isinstance(given, tuple) or len(given) != 4:
        return f"`step` gives {in_short(given)}", "return (observation, reward, done, info)"
    _, reward, done, info = given
    if not isinstance(info, dict) or not {"success", "format_valid"} <= info.keys():
        return f"the info of `step` is {in_short(info)}", "a dict with success and format_valid"
    if not _is_number(reward):
        return f"the reward of `step` is {in_short(reward)}", "return a finite number"
    if not _is_bool(done):
        return f"the third value of `step` (done) is {in_short(done)}", "return True or False"
    for name, (is_right, wanted) in _OF_INFO.items():
        if name in info and not is_right(info[name]):
            return f"`{name}` in the info of `step` is {in_short(info[name])}", f"give {wanted}"
    return None


def in_short(value: Any) -> str:
    """Return the beginning of a value's representation, or its type if it has none."""
    try:
        return f"{value!r:.60}"
    except Exception:  # of the value's own code, or a number with thousands of digits
        return f"a value of type {type(value).__name__}"


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    if _is_bool(value) or not hasattr(value, "__float__"):  # float() would also read a text
        return False
    try:
        return math.isfinite(float(value))
    except (TypeError, ValueError, OverflowError):
        return False


def _is_count(value: Any) -> bool:
    return isinstance(value, Integral) and int(value) >= 0


def _are_tricks(value: Any) -> bool:
    return isinstance(value, list | tuple | set | frozenset) and all(
        isinstance(kind, str) and kind in KINDS for kind in value
    )


_OF_INFO: dict[str, tuple[Callable[[Any], bool], str]] = {
    "success": (_is_bool, "True or False"),
    "format_valid": (_is_bool, "True or False"),
    "actions": (_is_count, "a whole number from 0"),
    "moves": (_is_count, "a whole number from 0"),
    "constant_reward": (_is_number, "a finite number, or leave it out"),
    "tricks": (_are_tricks, f"a list of some of {', '.join(KINDS)}"),
}
