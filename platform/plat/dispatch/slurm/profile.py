"""Cluster profiles: the settings of jobs on one site, in a small YAML file that `cluster=NAME` selects.

`slurm/NAME.yaml` is searched in the working directory, then in every folder above the experiment files (nearest first),
then among the profiles of plat; `cluster=PATH.yaml` names a file. `cluster.KEY=VALUE` on the command line changes one
value. No setting is part of a run's identity. TEMPLATE explains every option.

Options have the names of the parameters of submitit's AutoExecutor, whose documentation explains them; the others
(`modules`, `runs_per_task`, ...) are plat's own.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from plat.dispatch.slurm import profile_values
from plat.dispatch.slurm.profile_values import OURS, TEMPLATE
from plat.errors import SpecError
from plat.spec.reading import yaml_reader
from plat.spec.reading.yaml_scalar import option_scalar
from plat.suggest import suggest
from plat.trainer.resources import Resources
from plat.words.usage import Rates

FOLDER = "slurm"
KEY = "cluster="
OF_MODELS = ("timeout_min", "mem_gb", "cpus_per_task", "gpus_per_node", "nodes", "slurm_partition")
# Other spellings: those of plat 0.5, with a note, and submitit's second names.
OLD = {
    "partition": "slurm_partition",
    "account": "slurm_account",
    "qos": "slurm_qos",
    "constraint": "slurm_constraint",
    "exclude": "slurm_exclude",
    "gres": "slurm_gres",
    "time": "timeout_min",
    "memory": "mem_gb",
    "threads": "cpus_per_task",
    "gpus": "gpus_per_node",
    "setup": "slurm_setup",
    "python": "slurm_python",
    "options": "slurm_additional_parameters",
    "max_parallel": "slurm_array_parallelism",
    "signal_before": "slurm_signal_delay_s",
}
SECOND = {"slurm_time": "timeout_min", "slurm_mem": "mem_gb"}
SECOND |= {f"slurm_{name}": name for name in ("timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node")}
NAMES = OLD | SECOND
# Parameters of submitit that plat sets, or that it excludes: a run is one process.
OF_PLAT = ["name", "slurm_name", "slurm_job_name", "slurm_comment", "slurm_use_srun", "stderr_to_stdout"]
OF_PLAT += [
    "slurm_stderr_to_stdout",
    "tasks_per_node",
    "slurm_tasks_per_node",
    "slurm_ntasks_per_node",
    "slurm_srun_args",
    "slurm_teardown",
]


@dataclass(frozen=True)
class Profile:
    """The settings for jobs on one cluster. 0, "" and empty mean: the default of the site, or of the trainer.

    further    other parameters of submitit for SLURM, by name
    old_names  the spellings of plat 0.5 that the profile uses
    """

    name: str = "default"
    slurm_partition: str = ""
    slurm_account: str = ""
    slurm_qos: str = ""
    slurm_constraint: str = ""
    slurm_gres: str = ""
    slurm_exclude: str = ""
    timeout_min: int = 0
    mem_gb: float = 0.0
    cpus_per_task: int = 0
    gpus_per_node: int = 0
    nodes: int = 0
    modules: tuple[str, ...] = ()
    slurm_setup: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    container: str = ""
    slurm_python: str = ""
    slurm_additional_parameters: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    slurm_array_parallelism: int = 0
    runs_per_task: int = 0
    runs_at_once: int = 1
    slurm_signal_delay_s: int = 120  # seconds
    refresh: float = 10.0  # seconds
    accept_within: float = 60.0  # seconds
    command_timeout: float = 60.0  # seconds
    cost: Rates | None = None
    further: Mapping[str, Any] = field(default_factory=dict)
    old_names: tuple[str, ...] = ()

    def resources(self, stated: Mapping[str, Any], model: str) -> Resources:
        """Return a run's resources: its trainer's request `stated`, changed by the profile and its `models[model]`."""
        changes = {name: getattr(self, name) for name in OF_MODELS} | dict(self.models.get(model, {}))
        changed: dict[str, Any] = {_FIELDS[name]: value for name, value in changes.items() if value}
        if "memory_mb" in changed:
            changed["memory_mb"] = round(1024 * changed["memory_mb"])
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
    values, spelled = _read(_find(name)) if name else ({}, [])
    for key, value in changes.items():
        try:
            is_yaml = value[:1] + value[-1:] in ("[]", "{}")
            given = yaml_reader.parse(value, Path(key)).data if is_yaml else option_scalar(value, "")
            is_one = key in ("modules", "setup", "slurm_setup") and not is_yaml
            values |= checked(key, [given] if is_one else given, values.get("further"))
            spelled.append(key)
        except SpecError as error:
            error.where = f"the command line (cluster.{key}={value[:40]})"
            raise
    old = tuple(key for key in spelled if key in OLD)
    return Profile(**{"name": Path(name).stem or "default", "old_names": old, **values})


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


def _read(path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return the values of a profile's file, and the names of options as the file spells them."""
    document = yaml_reader.read(path)
    if not isinstance(document.data, dict):
        raise SpecError("a cluster profile must be a mapping of options", where=document.where(), fix=f"see {TEMPLATE}")
    values: dict[str, Any] = {}
    first: dict[str, str] = {}
    for name, value in document.data.items():
        key = str(name)
        option = NAMES.get(key, key)
        if option in first:
            raise SpecError(
                f"{first[option]} and {key} are two names of one setting",
                where=document.where_key(key),
                fix=f"keep one of them: {option}",
            )
        first[option] = key
        try:
            values |= checked(key, value, values.get("further"))
        except SpecError as error:
            error.where = document.where(key) if option in OPTIONS else document.where_key(key)
            raise
    return values, list(first.values())


def checked(key: str, value: Any, further: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return {field of `Profile`: value} of an option; raise SpecError, without a place, if it is wrong.

    further  the other parameters of submitit so far
    """
    option = NAMES.get(key, key)
    if option in OPTIONS:
        return {option: OPTIONS[option](key, value)}
    if option in OF_PLAT:
        raise SpecError(f"plat sets submitit's parameter {key!r} itself", fix="leave it out of the profile")
    if not option.startswith("slurm_"):
        raise SpecError(f"unknown option {key!r} of a cluster profile", fix=suggest(key, OPTIONS, "options"))
    _check_with_submitit(key, value)
    # None is not set: of a False submitit would make "--exclusive=False"
    return {"further": {**(further or {}), key: None if value is False else value}}


def _check_with_submitit(key: str, value: Any) -> None:
    """Raise SpecError, with submitit's own message, if it has no such parameter."""
    from submitit import AutoExecutor

    try:
        AutoExecutor(folder=os.curdir, cluster="debug").update_parameters(**{key: value})
    except NameError as error:
        said = str(error).splitlines()[0]
        names = re.split(r",\s*", said.rpartition("Valid arguments: ")[2])
        fix = suggest(key, [*OPTIONS, *(f"slurm_{name}" for name in sorted(names))], "options")
        raise SpecError(f"submitit: {said.partition(' Valid arguments')[0]}", fix=fix) from error


def _models(key: str, value: Any) -> dict[str, dict[str, Any]]:
    if not isinstance(value, dict) or not all(isinstance(item, dict) for item in value.values()):
        raise profile_values.wrong(key, value, "a mapping of models to the options that are different for them")
    for name, options in value.items():
        for option in options:
            if NAMES.get(option, option) not in OF_MODELS:
                raise SpecError(
                    f"unknown option {option!r} of the model {name!r}", fix=suggest(option, OF_MODELS, "one of")
                )
    return {
        name: {k: v for option, item in options.items() for k, v in checked(option, item).items()}
        for name, options in value.items()
    }


_FIELDS = dict(zip(OF_MODELS, ("minutes", "memory_mb", "threads", "gpus", "nodes", "partition"), strict=True))
CHECKS = {
    "str": profile_values.text,
    "int": profile_values.count,
    "float": profile_values.seconds,
    "tuple[str, ...]": profile_values.texts,
    "Mapping[str, str]": profile_values.named_texts,
}
OPTIONS: dict[str, Callable[[str, Any], Any]] = {
    **{field.name: CHECKS[str(field.type)] for field in dataclasses.fields(Profile) if field.type in CHECKS},
    "runs_at_once": lambda key, value: max(1, profile_values.count(key, value)),
    "command_timeout": profile_values.positive_seconds,
    "timeout_min": profile_values.time_limit,
    "mem_gb": profile_values.memory,
    "slurm_additional_parameters": profile_values.additional,
    "models": _models,
    "cost": profile_values.cost,
}
for _own in ("name", "further", "old_names"):  # fields that no option sets
    OPTIONS.pop(_own, None)
