"""Find the trainer that a name means: one of an installed package, or code that the user allows."""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from plat.errors import PlatError, PluginError, SpecError, UnknownTrainer
from plat.plugins.loading import ALLOW_IMPORT, check_beside, file_of, import_from, load_plugin, published
from plat.suggest import nearest, suggest
from plat.switches import is_on
from plat.trainer.annotations import fits
from plat.trainer.api import SUBCLASS, Trainer
from plat.user_code import position_of, user_code


def find_trainer(name: str, folder: Path | None = None) -> Trainer:
    """Return the trainer published under this name, or, if imports are allowed, the one at `module:ATTRIBUTE`.

    folder  the folder of the file that names it, in which the module may lie; None: where an earlier call looked

    Raises UnknownTrainer if there is none, or if imports are not allowed (`--allow-import`): planning another person's
    experiment file must not run code that is not installed as a plug-in. Raises PluginError if the trainer's code
    cannot be imported, or is no right subclass of Trainer. Raises SpecError if two folders have modules of one name.
    """
    if ":" in name:
        return _import_trainer(name, folder)
    trainers = published("plat.trainers")
    if name not in trainers:
        raise UnknownTrainer(f"unknown trainer {name!r}", fix=suggest(name, trainers, "one of"))
    return _made(load_plugin("plat.trainers", name), trainers[name].value)


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


def _import_trainer(place: str, folder: Path | None) -> Trainer:
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
        specs = [key for key, value in vars(module).items() if isinstance(value, type) and issubclass(value, Trainer)]
        raise SpecError(
            f"{title}: the module {name!r} ({file_of(place) or 'without a file'}) has no {attribute!r}",
            fix=suggest(attribute, specs, "its trainers"),
        )
    if folder is not None:
        check_beside(name, folder)
    return _made(getattr(module, attribute), place)


def _made(found: Any, place: str) -> Trainer:
    """Return the trainer of what `place` names. Raises PluginError if it is no right subclass of Trainer."""
    if not (isinstance(found, type) and issubclass(found, Trainer)):
        what = f"{place!r} is {found!r:.60}, not a subclass of Trainer"
        raise PluginError(what, where=position_of(place), fix=SUBCLASS)
    return _trainer_of(found)


@functools.cache
def _trainer_of(kind: type[Trainer]) -> Trainer:
    title = f"the trainer {kind.__module__}:{kind.__qualname__}"
    where = position_of(f"{kind.__module__}:{kind.__qualname__}")
    if missing := kind.__abstractmethods__:
        raise PluginError(f"{title} has no method `{min(missing)}`", where=where, fix=SUBCLASS)
    with user_code(f"{title} cannot be made"):
        trainer = kind()
    if wrong := wrong_attribute(trainer):
        fix = "correct it; plat.trainer.api.Trainer explains every attribute and method"
        raise PluginError(f"{title} is wrong: {wrong}", where=where, fix=fix)
    return trainer


def wrong_attribute(trainer: Trainer) -> str:
    """Return the first attribute that has not the type of its annotation in `Trainer`, in words; "" if there is none.

    A method must be one, and take the arguments that it has in `Trainer`.
    """
    for name, hint in get_type_hints(Trainer).items():
        if not hasattr(trainer, name):
            return f"{name} is missing"
        if not fits(getattr(trainer, name), hint):
            return f"{name} is {getattr(trainer, name)!r:.60}, not {Trainer.__annotations__[name]}"
    for name, method in vars(Trainer).items():
        if name.startswith("_") or not inspect.isfunction(method):
            continue
        own = getattr(trainer, name)
        arguments = [*inspect.signature(method).parameters]
        if not callable(own):
            return f"{name} is {own!r:.60}, not a method: def {name}({', '.join(arguments)})"
        try:
            inspect.signature(own).bind(*arguments[1:])
        except TypeError as error:
            return f"{name} has other arguments than ({', '.join(arguments)}): {error}"
        except ValueError:  # Python does not know them
            pass
    return ""
