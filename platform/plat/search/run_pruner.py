"""The contract of a pruner of a plug-in (entry-point group `plat.pruners`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from plat.errors import PluginError
from plat.plugins.loading import load_plugin, published

Curve = dict[int, float]  # step -> value
PLUGINS = "plat.pruners"  # the group of entry points


@dataclass(frozen=True)
class RunPruner:
    """A pruner of a plug-in, which stops a run by its own metrics and compares no trials.

    options  name -> default
    metrics  those that it reads; `success` is the headline metric
    judge    (metric -> step -> value, step, options) -> why it stops the run at this step, in one line, or "".
             A curve may have no value at this step
    """

    options: Mapping[str, float]
    metrics: tuple[str, ...]
    judge: Callable[[Mapping[str, Curve], int, Mapping[str, float]], str]


def run_pruner(name: str) -> RunPruner | None:
    """Return the pruner that a plug-in publishes under this name, or None. Raises PluginError if it is no RunPruner."""
    if name not in published(PLUGINS):
        return None
    pruner = load_plugin(PLUGINS, name)
    if not isinstance(pruner, RunPruner):
        what = f"the pruner {name!r} is a {type(pruner).__name__}, not a RunPruner"
        raise PluginError(what, where=published(PLUGINS)[name].value, fix="see plat.search.run_pruner")
    return pruner
