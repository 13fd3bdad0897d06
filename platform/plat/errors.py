"""Every error that a user can see, as one tree.

    PlatError                 shown as three lines: what, where, how to fix it; exit code 2
    ├── SpecError             an experiment file, an override or a config value is wrong
    │   ├── UnknownKey        it names a key that does not exist
    │   ├── UnknownTrainer    it names a trainer that is not installed, or must not be imported
    │   └── PluginError       the code of a trainer, an environment, a builder or a check is wrong
    ├── HomeError             $PLAT_HOME cannot be used (unwritable, full, a file in the way)
    ├── StoreError            the MLflow store cannot be used (locked, newer version, unreachable)
    ├── BundleError           a bundle is damaged, or does not match the local data
    ├── CheckpointError       a valid checkpoint is required and none exists
    └── RunError              one run cannot continue; only that run ends, with `failed:<failure_class>`

A PlatError never reaches the user as a traceback: the command line prints it with `render()`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

FAILURE_CLASSES = ("oom", "nan", "timeout", "preempted", "node", "stalled", "disk", "service", "error")


class PlatError(Exception):
    """An error with what went wrong, where (`file:line:column` or a path), and how to fix it.

    code  names the kind of error for programs (`--json`), and does not change between versions
    """

    exit_code = 2
    code = "error"

    def __init__(self, what: str, *, where: str | None = None, fix: str | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where
        self.fix = fix

    def render(self) -> str:
        """Return the lines shown to the user. Lines without content are left out."""
        lines = [f"error: {self.what}"]
        if self.where:
            lines.append(f"   at: {self.where}")
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """Return the error for a program."""
        return {"code": self.code, "what": self.what, "where": self.where, "fix": self.fix}

    def __reduce__(self) -> tuple[Any, ...]:  # keeps keyword arguments when a worker process returns the error
        return _rebuild, (type(self), self.what, self.where, self.fix, self.__dict__)


def _rebuild(kind: type[PlatError], what: str, where: str | None, fix: str | None, state: dict[str, Any]) -> PlatError:
    error = kind.__new__(kind)
    PlatError.__init__(error, what, where=where, fix=fix)
    error.__dict__.update(state)
    return error


class SpecError(PlatError):
    """An experiment file, an override or a config value is wrong. Nothing was written."""

    code = "bad-input"


class UnknownKey(SpecError):
    """A key that exists in no run and no plug-in."""

    code = "unknown-key"


class UnknownTrainer(SpecError):
    """A trainer that no installed package publishes, or that must not be imported."""

    code = "unknown-trainer"


class PluginError(SpecError):
    """The code of a trainer, an environment, a report builder or a check is wrong; `where` is its file and line."""

    code = "plugin"


class HomeError(PlatError):
    """The home directory cannot be used."""

    code = "home"


class StoreError(PlatError):
    """The MLflow store cannot be used."""

    code = "store"


class BundleError(PlatError):
    """A bundle is damaged, or does not match the local data. Nothing was exported or imported."""

    code = "bundle"


class CheckpointError(PlatError):
    """A valid checkpoint is required and none exists."""

    code = "checkpoint"


class RunError(PlatError):
    """One run cannot continue. `failure_class` is one of FAILURE_CLASSES; ValueError for another."""

    code = "run"

    def __init__(
        self, what: str, *, failure_class: str = "error", where: str | None = None, fix: str | None = None
    ) -> None:
        super().__init__(what, where=where, fix=fix)
        if failure_class not in FAILURE_CLASSES:
            raise ValueError(f"unknown failure class {failure_class!r}; one of {FAILURE_CLASSES}")
        self.failure_class = failure_class


@contextmanager
def os_errors_as(kind: type[PlatError], what: str, where: object, fix: str) -> Iterator[None]:
    """Raise an error of this kind for an OSError in the block; it says `what` and the system's reason."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}", where=str(where), fix=fix) from error
