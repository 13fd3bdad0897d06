"""Every error a user can meet, as one tree.

    PlatError                 shown as three lines: what, where, how to mend it; exit code 2
    ├── SpecError             an experiment file, an override or a config value is wrong
    │   └── PluginError       the code of a trainer, an environment, a builder or a check is wrong
    ├── HomeError             $PLAT_HOME cannot be used (unwritable, full, a file in the way)
    ├── StoreError            the MLflow store cannot be used (locked, newer version, unreachable)
    ├── BundleError           a bundle is damaged, or does not fit what is here
    ├── CheckpointError       no valid checkpoint where one was asked for
    └── RunError              one run cannot go on; ends that run only, with `failed:<failure_class>`

A PlatError never reaches the user as a traceback: the command line prints it with `render()`.
"""

from __future__ import annotations

from typing import Any

FAILURE_CLASSES = ("oom", "nan", "timeout", "preempted", "node", "stalled", "disk", "error")


class PlatError(Exception):
    """What went wrong, where (`file:line:column` or a path), and how to mend it."""

    exit_code = 2

    def __init__(self, what: str, *, where: str | None = None, mend: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.mend = mend

    def render(self) -> str:
        """The lines shown to the user; lines without content are left out."""
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"   at: {self.where}")
        if self.mend:
            lines.append(f"  fix: {self.mend}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:  # keyword arguments survive the way back from a worker process
        return _rebuild, (type(self), self.what, self.where, self.mend, self.__dict__)


def _rebuild(kind: type[PlatError], what: str, where: str | None, mend: str | None, state: dict[str, Any]) -> PlatError:
    error = kind.__new__(kind)
    PlatError.__init__(error, what, where=where, mend=mend)
    error.__dict__.update(state)
    return error


class SpecError(PlatError):
    """An experiment file, an override or a config value is wrong. Nothing was written."""


class PluginError(SpecError):
    """The code of a trainer, an environment, a report builder or a check is wrong; `where` is its file and line."""


class HomeError(PlatError):
    """The home directory cannot be used."""


class StoreError(PlatError):
    """The MLflow store cannot be used."""


class BundleError(PlatError):
    """A bundle is damaged, or does not fit what is here. Nothing was exported or imported."""


class CheckpointError(PlatError):
    """No valid checkpoint where one was asked for."""


class RunError(PlatError):
    """One run cannot go on. `failure_class` is one of FAILURE_CLASSES."""

    def __init__(
        self, what: str, *, failure_class: str = "error", where: str | None = None, mend: str | None = None
    ) -> None:
        super().__init__(what, where=where, mend=mend)
        if failure_class not in FAILURE_CLASSES:
            raise ValueError(f"unknown failure class {failure_class!r}; one of {FAILURE_CLASSES}")
        self.failure_class = failure_class
