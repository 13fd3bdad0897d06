"""Cluster profiles: the settings of jobs on one site, in a small YAML file that `cluster=NAME` selects.

`slurm/NAME.yaml` is searched in the working directory, then in every folder above the experiment files (nearest first),
then among the profiles of plat; `cluster=PATH.yaml` names a file. `cluster.KEY=VALUE` on the command line changes one
value. No setting is part of a run's identity. TEMPLATE explains every option.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.spec.reading import yaml_reader
from plat.spec.reading.yaml_scalar import option_scalar
from plat.suggest import suggest
from plat.trainer.resources import Resources

FOLDER = "slurm"
KEY = "cluster="
_HERE = Path(__file__).resolve()
# The profiles of plat: in the package if a wheel was installed, else at the top of the checkout.
OURS = packaged if (packaged := _HERE.with_name("profiles")).is_dir() else _HERE.parents[4] / "slurm"
TEMPLATE = OURS / "template.yaml"
_TIME = re.compile(r"(?:(\d+)-)?(\d+):(\d\d)(?::(\d\d))?")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)\s*([MGT])i?B?", re.IGNORECASE)
_UNITS = {"M": 1, "G": 1024, "T": 1024**2}
OF_MODELS = ("time", "memory", "threads", "gpus", "nodes", "partition")  # options that an entry of `models` may change


@dataclass(frozen=True)
class Profile:
    """The settings for jobs on one cluster. 0, "" and empty mean: the default of the site, or of the trainer."""

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
        """Return a run's resources: its trainer's request `stated`, changed by the profile and its `models[model]`."""
        changes: dict[str, Any] = {"time": self.time, "memory": self.memory, "threads": self.threads, "gpus": self.gpus}
        changes |= {"nodes": self.nodes, "partition": self.partition} | dict(self.models.get(model, {}))
        names = {"time": "minutes", "memory": "memory_mb"}
        changed: dict[str, Any] = {names.get(key, key): value for key, value in changes.items() if value}
        return dataclasses.replace(Resources.of(stated), **changed)


def load_profile(cluster: Sequence[str]) -> Profile:
    """Return the profile of `cluster=NAME`, or the default one, with the changes of `cluster.KEY=VALUE`.

    NAME is searched only in the working directory and among plat's profiles; `with_profile_path` also searches above
    the experiment files. Raises SpecError, with its place in the file or on the command line, if there is no such
    profile, or a key or value is wrong.
    """
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
            given = option_scalar(value, "")
            values[key] = checked(key, [given] if key in ("modules", "setup") else given)
        except SpecError as error:
            error.where = f"the command line (cluster.{key}={value[:40]})"
            raise
    return Profile(**{"name": Path(name).stem or "default", **values})


def with_profile_path(cluster: Sequence[str], files: Sequence[Path]) -> list[str]:
    """Return the settings `cluster` with each name of a profile replaced by the path of its file.

    Profiles are also searched in the folders above the experiment files, `files`. Raises SpecError if there is no
    profile of that name; a path that ends in .yaml is not checked.
    """
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
        fix=suggest(name, known, "profiles") if known else f"copy {TEMPLATE} to {own / name}.yaml",
    )


def _read(path: Path) -> dict[str, Any]:
    document = yaml_reader.read(path)
    if not isinstance(document.data, dict):
        raise SpecError("a cluster profile must be a mapping of options", where=document.where(), fix=f"see {TEMPLATE}")
    values = {}
    for key, value in document.data.items():
        try:
            values[key] = checked(key, value)
        except SpecError as error:
            known = key in OPTIONS
            error.where = document.where(key) if known else document.where_key(key)
            raise
    return values


def checked(key: str, value: Any) -> Any:
    """Return the value of an option in the unit of `Profile`; raise SpecError, without a place, if it is wrong."""
    if key not in OPTIONS:
        raise SpecError(f"unknown option {key!r} of a cluster profile", fix=suggest(key, OPTIONS, "options"))
    return OPTIONS[key](key, value)


def _wrong(key: str, value: Any, wanted: str) -> SpecError:
    return SpecError(f"{key} must be {wanted}, not {value!r}", fix=f"{TEMPLATE} explains every option")


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
    """Return minutes, from a number or a text as SLURM writes it: "2:00:00", "1-12:00:00"; "h:mm" without seconds."""
    if isinstance(value, str) and (parts := _TIME.fullmatch(value.strip())):
        days, hours, minutes, seconds = (int(part or 0) for part in parts.groups())
        return days * 1440 + hours * 60 + minutes + (1 if seconds else 0)
    try:
        return _count(key, value)
    except SpecError:
        raise _wrong(key, value, 'minutes, or a text such as "2:00:00" or "1-12:00:00"') from None


def _memory(key: str, value: Any) -> int:
    """Return MiB, from a number or a text with a unit: "16G"."""
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
            if option not in OF_MODELS:
                raise SpecError(
                    f"unknown option {option!r} of the model {name!r}", fix=suggest(option, OF_MODELS, "one of")
                )
    return {
        name: {option: checked(option, item) for option, item in options.items()} for name, options in value.items()
    }


CHECKS = {"str": _text, "int": _count, "float": _seconds, "tuple[str, ...]": _texts, "Mapping[str, str]": _named_texts}
OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    **{field.name: CHECKS[str(field.type)] for field in dataclasses.fields(Profile) if field.type in CHECKS},
    "runs_at_once": lambda key, value: max(1, _count(key, value)),
    "time": _minutes,
    "memory": _memory,
    "models": _models,
}
del OPTIONS["name"]  # the name of the file
