"""Read switches from environment variables."""

from __future__ import annotations

import os

from plat.errors import SpecError

ON = ("1", "true", "yes", "on")
OFF = ("", "0", "false", "no", "off")


def is_on(name: str) -> bool:
    """Return True if the environment variable is in ON, False if it is unset or in OFF. SpecError for other words."""
    value = os.environ.get(name, "").strip().lower()
    if value not in ON + OFF:
        what = f"{name} is {os.environ[name]!r}, which is neither on nor off"
        fix = f"set it to 1, or to 0 (or: {', '.join(ON[1:])}; {', '.join(OFF[2:])})"
        raise SpecError(what, where=f"the environment variable {name}", fix=fix)
    return value in ON
