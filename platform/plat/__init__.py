"""Run the experiments of a paper and check which of its claims hold.

The functions of `plat.api` are attributes of this package. Each is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from plat import moved_modules

if TYPE_CHECKING:
    from plat.api import claims, load, plan, report, runs, status, sweep, tune
    from plat.script_log import log

__version__ = "0.4.0"
__all__ = ["__version__", "claims", "load", "log", "plan", "report", "runs", "status", "sweep", "tune"]

moved_modules.install()


def __getattr__(name: str) -> Any:
    if name == "log":
        from plat.script_log import log

        return log
    if name in __all__:
        from importlib import import_module

        return getattr(import_module("plat.api"), name)
    raise AttributeError(f"module 'plat' has no attribute {name!r}")
