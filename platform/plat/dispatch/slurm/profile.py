"""Cluster profiles: how one site wants its jobs. A small YAML file, chosen with `cluster=NAME`.

`slurm/NAME.yaml` is looked for in the working directory, then in every folder above the experiment files, the nearest
first, then among those that come with plat; `cluster=PATH.yaml` names a file. `cluster.KEY=VALUE` on the command line
changes one value. None of it is part of a run's identity. Every option is explained in TEMPLATE.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.dispatch.slurm.profile_options import OPTIONS, OURS, TEMPLATE, checked
from plat.errors import SpecError
from plat.spec import yaml_reader
from plat.spec.yaml_scalar import scalar
from plat.suggest import mend
from plat.trainer.resources import Resources

FOLDER = "slurm"
KEY = "cluster="


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
            values[key] = checked(key, [scalar(value)] if key in ("modules", "setup") else scalar(value))
        except SpecError as error:
            error.where = f"the command line (cluster.{key}={value})"
            raise
    return Profile(**{"name": Path(name).stem or "default", **values})


def with_profile_path(cluster: Sequence[str], files: Sequence[Path]) -> list[str]:
    """The same settings, a profile that is named with the path of its file; `files` are the experiment files."""
    return [
        f"{KEY}{_find(text.removeprefix(KEY), files)}" if text.startswith(KEY) and text != KEY else text
        for text in cluster
    ]


def _find(name: str, files: Sequence[Path] = ()) -> Path:
    if name.endswith((".yaml", ".yml")):
        return Path(name)
    own = Path.cwd() / FOLDER
    above = [folder / FOLDER for file in files for folder in Path(os.path.abspath(file)).parents]
    folders = list(dict.fromkeys([own, *above, OURS]))
    for folder in folders:
        if (folder / f"{name}.yaml").is_file():
            return folder / f"{name}.yaml"
    known = sorted({path.stem for folder in folders if folder.is_dir() for path in folder.glob("*.yaml")})
    searched = [str(folder) for folder in folders if folder == own or folder.is_dir()]
    searched += [f"any {FOLDER}/ above {file}" for file in dict.fromkeys(files)]
    raise SpecError(
        f"no cluster profile {name!r}",
        where=f"{KEY}{name}: there is no {name}.yaml in {', '.join(searched)}",
        mend=mend(name, known, "profiles") if known else f"copy {TEMPLATE} to {own / name}.yaml",
    )


def _read(path: Path) -> dict[str, Any]:
    document = yaml_reader.read(path)
    if not isinstance(document.data, dict):
        raise SpecError("a cluster profile is a mapping of options", where=document.where(), mend=f"see {TEMPLATE}")
    values = {}
    for key, value in document.data.items():
        try:
            values[key] = checked(key, value)
        except SpecError as error:
            known = key in OPTIONS
            error.where = document.where(key) if known else document.where_key(key)
            raise
    return values
