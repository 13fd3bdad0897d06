"""The JSON of verbs about files, homes, stores and plat itself."""

from __future__ import annotations

from typing import Any

from typing_extensions import TypedDict

from plat.cli.schemas.results import SweepData


class InitData(TypedDict):
    """plat init"""

    file: str
    executed: str
    failure: str
    used: list[str]
    """Flags that the command of the file passes."""
    left: list[str]
    to_fill_in: list[str]
    trial: dict[str, Any] | None
    next: list[str]


class ImportData(TypedDict):
    """The last line of plat import."""

    file: str | None
    """The experiment file that was written for runs of another tool."""
    runs: int
    axes: list[str]
    notes: list[str]
    present: int
    """Runs of bundles that were there already."""
    report: str
    """The command that reports them."""
    sweep: SweepData | None


class ExportData(TypedDict):
    """plat export"""

    bundle: str | None
    """Null with --logbook."""
    logbook: str | None
    """The folder of the pages; null without --logbook."""
    hidden: list[str]
    """Files of the logbook in which folders of this machine or secrets were replaced."""
    done: int
    failed: int
    """Failed runs in the bundle; of a logbook, they are in `left_out`."""
    left_out: dict[str, str]
    """Run to the reason."""


class SyncData(TypedDict):
    """plat sync"""

    store: str
    imported: list[str]
    unchanged: int
    damaged: list[str]


class GcData(TypedDict):
    """plat gc"""

    home: str
    items: list[dict[str, Any]]
    freed: int
    """Bytes."""


class OptionsData(TypedDict):
    """plat options"""

    options: list[dict[str, Any]]


class UiData(TypedDict):
    """plat ui"""

    page: str


class DoctorData(TypedDict):
    """plat doctor"""

    checks: list[dict[str, Any]]


class CompletionData(TypedDict):
    """plat completion"""

    shell: str
    script: str


class SkillData(TypedDict):
    """plat skill"""

    text: str


class SchemaData(TypedDict):
    """plat schema: a JSON Schema."""
