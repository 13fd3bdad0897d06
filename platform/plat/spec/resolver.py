"""From the sections of a config to a run's identity, fast enough for 100,000 runs.

The sections (top-level keys) are shared between runs (`plat.spec.cells`), and the results of the trainer's own checks
are remembered by the sections that they read. A run then costs a few dictionary look-ups, one join and one hash.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass
from typing import Any, NamedTuple

from plat.errors import PluginError, SpecError
from plat.spec.conf import conf_of
from plat.spec.identity import canonical, identity, readable
from plat.spec.pieces import Piece, PieceMaker, by_section, place_of
from plat.spec.recorded import NEW, SAME, Recorded
from plat.spec.schema import schema_of
from plat.spec.sections import Section, SectionMaker
from plat.spec.trainer_calls import checked_call
from plat.trainer.api import TrainerSpec
from plat.trainer.plugin_code import TRAINER, code_facts
from plat.trainer.resources import Resources


@dataclass(frozen=True, slots=True)
class Resolved:
    """A run without its position in a matrix. `config` shares parts with other runs: treat it as read-only."""

    id: str
    label: str  # the readable names of its config groups, or of its trainer
    config: dict[str, Any]
    canon: tuple[str, ...]  # the texts that were hashed into the id
    prepare: tuple[str, str] | None
    resources: dict[str, Any]
    identity: dict[str, Any]  # see Run
    fingerprint: dict[str, Any]  # see Run

    def replaced(self, identifier: str, config: dict[str, Any], canon: tuple[str, ...]) -> Resolved:
        """The same of another config. Written out because `dataclasses.replace` takes several times as long."""
        facts = (self.prepare, self.resources, self.identity, self.fingerprint)
        return Resolved(identifier, self.label, config, canon, *facts)


class Checked(NamedTuple):
    """What a trainer says of a config, and `extra`: the text that is hashed into the id besides the config.

    `normalised` are the sections that its `validate` made of the given ones; None when it left them as they are.
    """

    prepare: tuple[str, str] | None
    resources: dict[str, Any]
    fingerprint: dict[str, Any]
    extra: str
    identity: dict[str, Any]
    normalised: dict[str, Section] | None


class OtherTrainer(Exception):
    """The pieces choose a trainer other than the one whose schema they were resolved with."""

    def __init__(self, name: str, where: str | None) -> None:
        super().__init__(name)
        self.name = name
        self.where = where


class Resolver:
    """Resolves the runs of one trainer. `pieces` makes pieces of overrides, and `sections` makes sections of pieces."""

    def __init__(self, spec: TrainerSpec) -> None:
        self.spec = spec
        schema = schema_of(spec.config_type)
        self.schema = schema
        self.pieces = PieceMaker(schema, conf_of(spec.conf) if spec.conf else None)
        self.fields = [field.name for field in dataclasses.fields(spec.config_type) if field.name in schema.defaults]
        self.sorted_fields = sorted(self.fields)
        self.sections = SectionMaker(spec, schema)
        self._idle = Recorded(checked_call(spec, "idle_keys"))
        self._validate = checked_call(spec, "validate")
        self._valid = Recorded(self._validate)
        self._facts = Recorded(checked_call(spec, "fingerprint"))
        self._prepare = Recorded(checked_call(spec, "prepare"))
        stated = checked_call(spec, "resources")
        self._resources = Recorded(lambda config: Resources.of(stated(config)).as_dict())
        self._code = code_facts(TRAINER, spec)
        self._deciding: dict[str, None] = {}  # the names of the sections that decide what `_check` gives
        self._checked: dict[tuple[int, ...], Checked] = {}  # by the identities of these sections

    def resolve(
        self,
        sections: Mapping[str, Section],
        chosen: Callable[[], Mapping[str, Piece]],
        trainer: str,
        place: Callable[[], str],
    ) -> Resolved:
        """The config that these sections make, and its identity; SpecError, at `place` or a piece's, if it cannot run.

        `chosen` gives the pieces of which the sections were made, `place` the place of the cell: both for messages.
        """
        stated = sections.get("trainer")
        if stated is not None and stated.value not in (trainer, self.spec.name):
            raise OtherTrainer(stated.value, place_of("trainer", chosen().values()))
        try:
            sections = self._effective(sections, chosen)
            checked = self._check(sections)
        except SpecError as error:
            raise _located(error, chosen(), place()) from None
        sections = checked.normalised or sections
        config = {name: section.value for name, section in sections.items()}
        fragments = [text for name in self.sorted_fields if (text := sections[name].text)]
        identifier = identity(fragments, checked.extra)
        labels = [section.label for section in sections.values() if section.label]
        label = "-".join(labels) if labels else readable([self.spec.name, *self._plain_labels(config)])
        canon = (*fragments, checked.extra)
        return Resolved(
            identifier, label, config, canon, checked.prepare, checked.resources, checked.identity, checked.fingerprint
        )

    def is_free(self, name: str) -> bool:
        """Whether a section decides nothing: runs that differ in it alone differ in its value and in their ids."""
        return name not in self._deciding and name not in self.sections.noting

    def _effective(
        self, sections: Mapping[str, Section], chosen: Callable[[], Mapping[str, Piece]]
    ) -> Mapping[str, Section]:
        """The same sections without overrides of keys that have no effect in this config: these keep the value that
        the config's groups give them, so that an override without effect makes no new run."""
        idle = self._idle.recall(sections)
        if idle is NEW:
            idle = self._idle({name: section.value for name, section in sections.items()}, sections)
            self._decide_by(self._idle.names() | {key.partition(".")[0] for key in idle} & sections.keys())
        if self.pieces.overridden.isdisjoint(idle):
            return sections
        kept = {target: piece for target, piece in chosen().items() if target not in idle}
        touching = by_section(kept)
        names = {key.partition(".")[0] for key in idle if key in self.pieces.overridden}
        return {**sections, **{name: self.sections.section(name, touching) for name in names}}

    def _check(self, sections: Mapping[str, Section]) -> Checked:
        """What the trainer says of a config, remembered by the sections that decide it."""
        self._decide_by(self.sections.noting)
        known = self._checked.get(tuple([id(sections[name]) for name in self._deciding]))
        if known is not None:
            return known
        item = self.spec.config_type(**{name: section.item for name, section in sections.items()})
        valid, normalised = item, None
        if self._valid(item, sections) is not SAME:
            valid = self._validate(item)
            normalised = self.sections.normalised(valid, sections)
        final = normalised or sections
        facts = self._facts(valid, final)
        prepare = self._prepare(valid, final)
        resources = self._resources(valid, final)
        plugins = sorted([*self._code, *(pair for section in final.values() for pair in section.plugins)])
        left_out = [key for section in final.values() for key in section.left_out]
        extra = canonical([self.spec.name, self.spec.version, plugins, facts])
        recorded = {"trainer": self.spec.name, "plugins": plugins, "left_out": left_out}
        checked = Checked(prepare, resources, facts, extra, recorded, normalised)
        if normalised is None:
            for function in (self._valid, self._facts, self._prepare, self._resources):
                self._decide_by(function.names())
            self._checked[tuple([id(sections[name]) for name in self._deciding])] = checked
        else:
            self._decide_by(set(self.fields))  # every section may have decided it
        return checked

    def _decide_by(self, names: Set[str]) -> None:
        if not names <= self._deciding.keys():
            self._deciding.update(dict.fromkeys(sorted(names)))
            self._checked.clear()

    def _plain_labels(self, config: Mapping[str, Any]) -> list[str]:
        """Labels for a config without named groups: its texts, and the numbers that differ from their defaults."""
        labels = []
        for name, value in config.items():
            if name in ("trainer", "scale", "seed") or name in self.spec.operational_keys:
                continue
            if isinstance(value, str) and value:
                labels.append(value[:24])
            elif isinstance(value, (int, float)) and value != self.schema.defaults[name]:
                labels.append(f"{name}{value}".lower())
        return labels


def _located(error: SpecError, chosen: Mapping[str, Piece], place: str) -> SpecError:
    """The error of a trainer's check names a key; add where that key was set and in which run."""
    if isinstance(error, PluginError):  # it names a file and a line
        error.where = f"{error.where} ({place})" if error.where else place
        return error
    key = error.where
    key_place = place_of(key, chosen.values()) if key else None
    error.where = f"{key_place} ({key}; {place})" if key_place else f"{place} ({key})" if key else place
    return error
