"""`plat options`: every option of a run, report builder and claim check, with type, default and limits."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from plat.cli.common import verb
from plat.cli.completion import keys
from plat.cli.result import Result
from plat.cli.schemas.others import OptionsData
from plat.cli.screen.table import fitted, table
from plat.errors import SpecError
from plat.plugins.loading import load_choice, load_plugin, published
from plat.spec.composition.conf import conf_of
from plat.spec.composition.descriptions import describe
from plat.spec.composition.leaf import Leaf, show
from plat.spec.composition.pieces import group_options
from plat.spec.composition.schema import Schema, schema_of, select
from plat.suggest import suggest
from plat.trainer.api import Trainer
from plat.trainer.finding import default_trainer, find_trainer

FUNCTIONS = {"builder": "plat.reports", "check": "plat.claims"}
COLUMNS = ("option", "default", "meaning")
LONG = 14  # characters; a longer default stands with the meaning


class Argument(NamedTuple):
    """An argument of a builder or check in an experiment file; `default` is "" for a required one."""

    name: str
    type: str
    default: str


@dataclass(frozen=True)
class Option:
    """One name that `plat options` explains.

    type      in words; "" for a builder or a check
    kind      "group" (a config group) | "option" (a key) | "builder" (of reports) | "check" (of claims)
    default   plain value in a run without overrides; None for a builder or a check
    choices   the valid values, None where any value of the type is valid
    limits    the range of a number in words
    unit      of a number, "" for none
    means     meaning of an option, in a line
    needs     the choice that the option belongs to, e.g. "task=digits"; "" for an option of every run
    about     docstring of the group of options, the builder or the check
    arguments of a builder or a check, in their order
    """

    key: str
    kind: str
    type: str
    default: Any = None
    choices: tuple[str, ...] | None = None
    limits: str = ""
    needs: str = ""
    about: str = ""
    unit: str = ""
    means: str = ""
    arguments: tuple[Argument, ...] = ()

    def cells(self) -> tuple[str, ...]:
        """Return the cells of its table row, in the order of COLUMNS."""
        default = self.kind if self.kind in FUNCTIONS else show(self.default)
        long = f"default {default}" if len(default) > LONG else ""
        choices = f"one of {', '.join(self.choices)}" if self.choices else ""
        unit = f"in {self.unit}" if self.unit else ""
        needs = f"with {self.needs}" if self.needs else ""
        meaning = "; ".join(filter(None, [self.means, unit, choices, long, needs]))
        return (self.key, "" if long else default, meaning)


@verb(OptionsData, reads_trainers=True)
def options(
    key: Annotated[
        str | None, typer.Argument(metavar="[KEY]", help="An option, a group, or a name.", autocompletion=keys)
    ] = None,
    trainer: Annotated[str | None, typer.Option("--trainer", metavar="NAME", help="Whose options are shown.")] = None,
) -> Result:
    """Explain options of runs, builders of reports and checks.

    For example: plat options filter, plat options filter.rule, plat options peak_success_table
    """
    if key and key.partition(".")[0] == "script":
        trainer = "script"
    chosen_by_us = trainer is None
    trainer = trainer or default_trainer() or "script"
    known = [*_options_of(find_trainer(trainer, Path())), *_functions()]
    chosen = known if key is None else _named(key, known)
    data = {"options": [dataclasses.asdict(option) for option in chosen]}
    if len(chosen) == 1:
        return Result(data, lambda: _in_full(chosen[0]))
    is_ours = key is None and chosen_by_us and trainer != "script"
    head = f"Options of a script: plat options --trainer script. Of the trainer `{trainer}`:\n\n" if is_ours else ""
    tail = "" if key else "\n\n`plat options KEY` explains one of them, or all that begin with KEY."
    return Result(data, lambda: head + table(COLUMNS, [option.cells() for option in chosen]) + tail)


def _named(key: str, known: list[Option]) -> list[Option]:
    """Return the options of this name and all below it; SpecError with the nearest name if there is none."""
    chosen = [option for option in known if option.key == key or option.key.startswith(key + ".")]
    if not chosen:
        names = [option.key for option in known]
        trainer = key.partition(".")[0]
        of_trainer = trainer in published("plat.trainers")
        how = f"see `plat options --trainer {trainer}`" if of_trainer else suggest(key, names, "options")
        raise SpecError(f"there is no option {key!r}", where="the command line", fix=how)
    return chosen


def _in_full(option: Option) -> str:
    is_function = option.kind in FUNCTIONS
    facts = {"kind": option.kind} if is_function else {"type": option.type, "default": show(option.default)}
    others = {"choices": ", ".join(option.choices or ()), "limits": option.limits, "unit": option.unit}
    others |= {"meaning": option.means, "needs": option.needs}
    facts |= {name: text for name, text in others.items() if text}
    lines = [option.key, *(f"  {name:9}  {text}" for name, text in facts.items())]
    if option.arguments:
        lines += ["", table(("arguments", "type", "default"), option.arguments)]
    return fitted("\n".join([*lines, *(["", option.about] if option.about else [])]))


def _options_of(trainer: Trainer) -> Iterator[Option]:
    """Yield the config groups and keys of a trainer, with the defaults of a run without overrides."""
    schema = schema_of(trainer.config_type)
    defaults = _defaults(trainer, schema)
    if trainer.conf:
        conf = conf_of(trainer.conf)
        for group in conf.options:
            choices = group_options(conf, schema, group)
            about = f"each choice sets several of the keys below `{group}` together"
            yield Option(group, "group", "config group", conf.defaults[group], choices, means=about)
    groups = conf_of(trainer.conf).options if trainer.conf else ()
    for key, leaf in schema.leaves.items():
        if key not in groups:  # such a key only records the chosen option of the group
            yield _option(key, leaf, select(defaults, key))
    for key, leaf in schema.free.items():
        yield from _plugin_options(key, leaf.metadata.get("options_of"), schema)


def _plugin_options(key: str, chooser: str | None, schema: Schema) -> Iterator[Option]:
    """Yield the options below a key whose meaning another key decides: those of every plugin that this key may name."""
    selector = schema.leaves.get(".".join([*key.split(".")[:-1], chooser])) if chooser else None
    if selector is None or "plugin" not in selector.metadata:
        yield Option(key, "option", "a mapping", {})
        return
    group = selector.key.removesuffix(".name")
    for name in selector.choices() or ():
        own = schema_of(load_choice(selector.metadata["plugin"], name).config_type)
        for below, leaf in own.leaves.items():
            yield _option(f"{key}.{below}", leaf, select(own.defaults, below), f"{group}={name}")


def _option(key: str, leaf: Leaf, default: Any, needs: str = "") -> Option:
    """Return one config key, explained by the comment beside its field and the docstring of its class."""
    means, unit = describe(leaf.owner, leaf.name)
    type_, about = leaf.describe(), _about(leaf.owner)
    return Option(key, "option", type_, default, leaf.choices(), leaf.limits(), needs, about, unit, means)


def _defaults(trainer: Trainer, schema: Schema) -> dict[str, Any]:
    """Return the config of a run without overrides; the schema's defaults if such a run is incomplete."""
    from plat.spec.expansion.experiment import build_run

    try:
        return build_run([f"trainer={trainer.name}"]).config
    except SpecError:
        return schema.defaults


def _functions() -> Iterator[Option]:
    """Yield every report builder and claim check that an installed package publishes."""
    for kind, group in FUNCTIONS.items():
        for name in published(group):
            function = load_plugin(group, name)
            parameters = list(inspect.signature(function).parameters.values())[2:]
            arguments = tuple(_argument(parameter) for parameter in parameters)
            about = inspect.getdoc(function) or ""
            means = " ".join(about.partition("\n\n")[0].split())
            yield Option(name, kind, "", about=about, means=means, arguments=arguments)


def _argument(parameter: inspect.Parameter) -> Argument:
    """Return an argument with its type in words and its default."""
    annotation = parameter.annotation
    if annotation is parameter.empty:
        text = ""
    elif isinstance(annotation, type) and not hasattr(annotation, "__args__"):
        text = annotation.__name__
    else:
        text = re.sub(r"\b(?:collections\.abc|typing)\.", "", str(annotation))
    return Argument(parameter.name, text, "" if parameter.default is parameter.empty else show(parameter.default))


def _about(owner: type) -> str:
    """Return the docstring of a group of options; "" when it is the signature that Python generates."""
    text = inspect.getdoc(owner) or ""
    return "" if text.startswith(f"{owner.__name__}(") else text
