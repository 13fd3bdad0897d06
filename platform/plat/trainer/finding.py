"""Find the trainer that a name means: one of an installed package, or code that the user allows."""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from plat.errors import PlatError, PluginError, SpecError, UnknownTrainer
from plat.plugins.code_folders import check_beside, file_of, import_from
from plat.plugins.loading import ALLOW_IMPORT, load_plugin, published
from plat.suggest import nearest, suggest
from plat.switches import is_on
from plat.trainer.api import TrainerSpec
from plat.user_code import definition_of, user_code


def find_trainer(name: str, folder: Path | None = None) -> TrainerSpec:
    """Return the trainer published under this name, or, if imports are allowed, the one at `module:ATTRIBUTE`.

    folder  the folder of the file that names it, in which the module may lie; None: where an earlier call looked

    Raises UnknownTrainer if there is none, or if imports are not allowed (`--allow-import`): planning another person's
    experiment file must not run code that is not installed as a plug-in. Raises PluginError if the trainer's code
    cannot be imported, or its TrainerSpec is wrong. Raises SpecError if two folders have different modules of one name.
    """
    if ":" in name:
        return _import_trainer(name, folder)
    trainers = published("plat.trainers")
    if name not in trainers:
        raise UnknownTrainer(f"unknown trainer {name!r}", fix=suggest(name, trainers, "one of"))
    return _checked(load_plugin("plat.trainers", name), name)


def default_trainer(keys: Iterable[str] = ()) -> str | None:
    """Return the trainer of a file that names none and has these keys; None if no installed package declares one.

    A package declares its trainer for files with a key: group `plat.default_trainers`, the key as the name, and the
    same target as in `plat.trainers`. A file with none of the declared keys gets the only trainer that is declared.
    """
    declared = published("plat.default_trainers")
    targets = {declared[key].value for key in keys if key in declared} or {point.value for point in declared.values()}
    names = [name for name, point in published("plat.trainers").items() if point.value in targets]
    return names[0] if len(names) == 1 else None


def shown_metrics(name: object) -> Mapping[str, str]:
    """Return label -> metric that runs of a trainer show beside their success; {} if there is no such trainer here."""
    try:
        return find_trainer(str(name)).shown
    except PlatError:
        return {}


def _import_trainer(place: str, folder: Path | None) -> TrainerSpec:
    """Return a trainer that no installed package publishes: `package.module:ATTRIBUTE`."""
    name, _, attribute = place.partition(":")
    if not is_on(ALLOW_IMPORT):
        raise UnknownTrainer(
            f"the trainer {place!r} is not published by an installed package, and importing it runs its code",
            fix=f"if you trust it, add --allow-import: this command, also a plan, then runs the module {name} "
            f"and what it imports ({ALLOW_IMPORT}=1 allows it for all commands); "
            "or publish it as an entry point of plat.trainers",
        )
    import_from(folder, name)
    title = f"cannot load the trainer {place!r}"
    try:
        with user_code(title):
            module = importlib.import_module(name)
    except PluginError as error:
        missing = isinstance(error.__cause__, ModuleNotFoundError) and name.startswith(str(error.__cause__.name))
        if error.where is None or missing:  # nothing was imported: the name is wrong, not the code
            near = nearest(name.partition(".")[0], published("plat.trainers"))
            hint = "package.module:ATTRIBUTE, importable from here or beside the experiment file"
            error.where, error.fix = None, f"did you mean {near!r}? Or {hint}" if near else hint
        raise
    if not hasattr(module, attribute):
        specs = [key for key, value in vars(module).items() if isinstance(value, TrainerSpec)]
        raise SpecError(
            f"{title}: the module {name!r} ({file_of(place) or 'without a file'}) has no {attribute!r}",
            fix=suggest(attribute, specs, "its trainers"),
        )
    if folder is not None:
        check_beside(name, folder)
    return _checked(getattr(module, attribute), place)


def _checked(spec: Any, name: str) -> TrainerSpec:
    if not isinstance(spec, TrainerSpec):
        raise SpecError(f"{name!r} is a {type(spec).__name__}, not a TrainerSpec", fix="name a TrainerSpec")
    if wrong := wrong_field(spec):
        raise PluginError(
            f"the TrainerSpec of {name!r} is wrong: {wrong}",
            where=definition_of(spec.load) if callable(spec.load) else None,
            fix="correct it; plat.trainer.api.TrainerSpec explains every field",
        )
    return spec


class Kind(NamedTuple):
    """The type of a field in words, and a function that tests a value."""

    words: str
    holds: Callable[[Any], bool]


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0


_TEXT = Kind("a text", lambda value: isinstance(value, str) and bool(value) and value.isprintable())
_TEXTS = Kind(
    'a tuple of texts, e.g. ("train.micro_batch",)',
    lambda value: isinstance(value, tuple | list) and all(isinstance(item, str) for item in value),
)
_FUNCTION = Kind("a function", callable)


def _or_none(kind: Kind) -> Kind:
    return Kind(f"{kind.words} or None", lambda value: value is None or kind.holds(value))


FIELDS = {
    **dict.fromkeys(("name", "version"), _TEXT),
    **dict.fromkeys(("conf", "code"), _or_none(_TEXT)),
    **dict.fromkeys(("operational_keys", "preload", "metrics", "cost_keys"), _TEXTS),
    **dict.fromkeys(("load", "validate", "resources", "fingerprint", "idle_keys", "iterations"), _FUNCTION),
    **dict.fromkeys(
        (
            "prepare",
            "load_prepare",
            "load_evaluate",
            "less_memory",
            "load_check",
            "check_machine",
            "disk_bytes",
            "needs",
            "load_plan_note",
            "source_files",
            "doubts",
        ),
        _or_none(_FUNCTION),
    ),
    "snapshots": _or_none(Kind("a module with `kept`", lambda value: callable(getattr(value, "kept", None)))),
    "config_type": Kind("a dataclass", lambda value: isinstance(value, type)),
    "reuses_process": Kind("True or False", lambda value: isinstance(value, bool)),
    "headline": Kind("a text or a function", lambda value: _TEXT.holds(value) or callable(value)),
    **dict.fromkeys(("legacy", "shown"), Kind("a dict of keys and values", lambda value: isinstance(value, Mapping))),
    "stall_after": Kind("a number of seconds", _is_time),
}


def wrong_field(spec: Any) -> str:
    """Return the first field with a wrong value, in words; "" if there is none."""
    for name, kind in FIELDS.items():
        value = getattr(spec, name)
        if not kind.holds(value):
            return f"{name} is {value!r:.60}, not {kind.words}"
    return ""
