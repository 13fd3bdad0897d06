"""Switches of plat among the environment variables: on, off, or a mistake that is named."""

from __future__ import annotations

import os

from plat.errors import SpecError

ON = ("1", "true", "yes", "on")
OFF = ("", "0", "false", "no", "off")


def is_on(name: str) -> bool:
    """Whether the variable of this name is set to a word for on; SpecError for what is neither on nor off."""
    value = os.environ.get(name, "").strip().lower()
    if value not in ON + OFF:
        raise SpecError(
            f"{name} is {os.environ[name]!r}, which is neither on nor off",
            where=f"the environment variable {name}",
            mend=f"set it to 1, or to 0 (or: {', '.join(ON[1:])}; {', '.join(OFF[2:])})",
        )
    return value in ON
