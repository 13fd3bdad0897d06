"""The command that a run of `plat run` was started with, to be copied and pasted: no file names its options."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from plat.cli.common import home_option
from plat.errors import PlatError
from plat.store.home import Home

UNKNOWN = "plat run, with the options that it was started with"


def command_of(home: Home, meta: Mapping[str, Any]) -> str:
    """`plat run KEY=VALUE...` of the run with this meta.json, with the trainer, the home and the id that it has.

    Lists are not recorded among a run's options. Where the options alone would make another run, this is UNKNOWN.
    """
    from plat.spec.experiment import build_run

    axes = meta.get("axes")
    options = [f"{key}={_spelled(value)}" for key, value in axes.items()] if isinstance(axes, dict) else []
    try:
        if build_run(options).id != meta.get("id"):
            return UNKNOWN
    except PlatError:
        return UNKNOWN
    return shlex.join(["plat", "run", *options]) + home_option(home)


def _spelled(value: Any) -> str:
    """A value as the command line takes it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
