"""Cluster profiles: how one site wants its jobs. A small YAML file, chosen with `cluster=NAME`.

`slurm/NAME.yaml` is looked for in the working directory, then among those that come with plat; `cluster=PATH.yaml`
names a file. `cluster.KEY=VALUE` on the command line changes one value. None of it is part of a run's identity.
Every option is explained in slurm/template.yaml.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.spec import yaml_reader
from plat.spec.yaml_scalar import scalar
from plat.suggest import mend
from plat.trainer.resources import Resources

FOLDER = "slurm"
_TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([MGT])i?B?", re.IGNORECASE)
_UNITS = {"M": 1, "G": 1024, "T": 1024**2}


@dataclass(frozen=True)
class Profile:
    """How jobs are submitted to one cluster. 0, "" and empty mean: whatever the site, or the trainer, says."""

    name: str = "default"
    partition: str = ""
    account: str = ""
    qos: str = ""
    constraint: str = ""
    gres: str = ""
    exclude: str = ""
    time: int = 0  # minutes
    memory: int = 0  # MiB
    threads: int = 0
    gpus: int = 0
    nodes: int = 0
    modules: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    python: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    max_parallel: int = 0
    runs_per_task: int = 0
    runs_at_once: int = 1
    signal_before: int = 120  # seconds
    refresh: float = 10.0  # seconds
    accept_within: float = 60.0  # seconds
    command_timeout: float = 60.0  # seconds

    def resources(self, stated: Mapping[str, Any], model: str) -> Resources:
        """What a run asks for: as its trainer states it, changed by the profile, and by its entry for the model."""
        changes: dict[str, Any] = {"time": self.time, "memory": self.memory, "threads": self.threads, "gpus": self.gpus}
        changes |= {"nodes": self.nodes, "partition": self.partition} | dict(self.models.get(model, {}))
        names = {"time": "minutes", "memory": "memory_mb"}
        changed: dict[str, Any] = {names.get(key, key): value for key, value in changes.items() if value}
        return dataclasses.replace(Resources.of(stated), **changed)


def load_profile(cluster: Sequence[str]) -> Profile:
    """The profile that `cluster=NAME` and `cluster.KEY=VALUE` choose; SpecError, with its place, if wrong."""
    name, changes = "", {}
    for text in cluster:
        key, _, value = text.partition("=")
        if key == "cluster":
            name = value
        else:
            changes[key.removeprefix("cluster.")] = value
    values = _read(_find(name)) if name else {}
    for key, value in changes.items():
        try:
            values[key] = _checked(key, [scalar(value)] if key in ("modules", "setup") else scalar(value))
        except SpecError as error:
            error.where = f"the command line (cluster.{key}={value})"
            raise
    return Profile(**{"name": Path(name).stem or "default", **values})


def _find(name: str) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    folders = [Path.cwd() / FOLDER, Path(__file__).resolve().parents[4] / FOLDER]
    for folder in folders:
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    known = sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})
    raise SpecError(
        f"no cluster profile {name!r}",
        where=f"cluster={name}: no {FOLDER}/{name}.yaml in the working directory, and none comes with plat",
        mend=mend(name, known, "profiles") if known else f"write {folders[0] / name}.yaml (see slurm/template.yaml)",
    )


def _read(path: Path) -> dict[str, Any]:
    document = yaml_reader.read(path)
    if not isinstance(document.data, dict):
        raise SpecError(
            "a cluster profile is a mapping of options", where=document.where(), mend="see slurm/template.yaml"
        )
    values = {}
    for key, value in document.data.items():
        try:
            values[key] = _checked(key, value)
        except SpecError as error:
            known = key in _CHECKS
            error.where = document.where(key) if known else document.where_key(key)
            raise
    return values


def _checked(key: str, value: Any) -> Any:
    if key not in _CHECKS:
        raise SpecError(f"unknown option {key!r} of a cluster profile", mend=mend(key, _CHECKS, "options"))
    return _CHECKS[key](key, value)


def _wrong(key: str, value: Any, wanted: str) -> SpecError:
    return SpecError(f"{key} must be {wanted}, not {value!r}", mend="slurm/template.yaml explains every option")


def _text(key: str, value: Any) -> str:
    if isinstance(value, str | int) and not isinstance(value, bool) and "\n" not in str(value):
        return str(value)
    raise _wrong(key, value, "a text in one line")


def _texts(key: str, value: Any) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise _wrong(key, value, "a list of texts")


def _count(key: str, value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _wrong(key, value, "a whole number of at least 0")


def _seconds(key: str, value: Any) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e6:
        return float(value)
    raise _wrong(key, value, "a number of seconds")


def _minutes(key: str, value: Any) -> int:
    """Minutes, or a text as SLURM writes it: "2:00:00", "1-12:00:00"; "h:mm" without seconds."""
    if isinstance(value, str) and (parts := _TIME.fullmatch(value.strip())):
        days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
        return days * 1440 + hours * 60 + minutes + (1 if seconds else 0)
    try:
        return _count(key, value)
    except SpecError:
        raise _wrong(key, value, 'minutes, or a text such as "2:00:00" or "1-12:00:00"') from None


def _memory(key: str, value: Any) -> int:
    """MiB, or a text with a unit: "16G"."""
    if isinstance(value, str) and (parts := _MEMORY.fullmatch(value.strip())):
        return round(float(parts[1]) * _UNITS[parts[2].upper()])
    try:
        return _count(key, value)
    except SpecError:
        raise _wrong(key, value, 'MiB, or a text such as "16G"') from None


def _named_texts(key: str, value: Any) -> dict[str, str]:
    if isinstance(value, dict) and all(isinstance(item, str | int | float) for item in value.values()):
        return {name: str(item).lower() if isinstance(item, bool) else str(item) for name, item in value.items()}
    raise _wrong(key, value, "a mapping of names to texts")


def _models(key: str, value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(item, dict) for item in value.values()):
        raise _wrong(key, value, "a mapping of models to the options that are different for them")
    for name, options in value.items():
        for option in options:
            if option not in _OF_MODELS:
                raise SpecError(
                    f"unknown option {option!r} of the model {name!r}", mend=mend(option, _OF_MODELS, "one of")
                )
    return {
        name: {option: _checked(option, item) for option, item in options.items()} for name, options in value.items()
    }


_OF_MODELS = ("time", "memory", "threads", "gpus", "nodes", "partition")
_CHECKS = {
    **dict.fromkeys(("partition", "account", "qos", "constraint", "gres", "exclude", "python"), _text),
    **dict.fromkeys(("threads", "gpus", "nodes", "max_parallel", "runs_per_task", "signal_before"), _count),
    **dict.fromkeys(("refresh", "accept_within", "command_timeout"), _seconds),
    "runs_at_once": lambda key, value: max(1, _count(key, value)),
    "time": _minutes,
    "memory": _memory,
    "modules": _texts,
    "setup": _texts,
    "environment": _named_texts,
    "options": _named_texts,
    "models": _models,
}
