"""Merge the pieces of a run's config and compute its identity.

Runs share sections (top-level keys), and the trainer's checks are cached by the sections that they read.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from plat.errors import PluginError, SpecError
from plat.plugins.plugin_code import TRAINER, code_facts
from plat.spec.composition.conf import conf_of
from plat.spec.composition.pieces import Piece, PieceMaker, by_section, place_of
from plat.spec.composition.schema import schema_of
from plat.spec.composition.sections import Section, SectionMaker
from plat.spec.composition.trainer_calls import checked_call, config_code
from plat.spec.identity.recorded_config import SAME, Recorded
from plat.spec.identity.run_identity import canonical, identity, readable
from plat.trainer.api import Trainer
from plat.trainer.resources import Resources


class Checked(NamedTuple):
    """The trainer's answers about a config; prepare, resources, identity and fingerprint are those of `Run`.

    extra       the text that is hashed into the id besides the config
    earlier     such a text and an `identity` by the rules of plat 0.4; None if they are the same
    normalised  the sections that the trainer's `validate` changed the config to; None if it changed nothing
    """

    prepare: tuple[str, str] | None
    resources: dict[str, Any]
    fingerprint: dict[str, Any]
    extra: str
    identity: dict[str, Any]
    normalised: dict[str, Section] | None
    earlier: tuple[str, dict[str, Any]] | None


class Resolved(NamedTuple):
    """A run without its position in a matrix. `config` shares parts with other runs: treat it as read-only."""

    id: str
    label: str  # the readable names of its config groups, or of its trainer
    config: dict[str, Any]
    canon: tuple[str, ...]  # the texts that were hashed into the id
    checked: Checked
    earlier: tuple[str, dict[str, Any]] | None  # the id and the identity that plat 0.4 gave it, if they are others


class OtherTrainer(Exception):
    """The pieces choose another trainer than the one that resolves them. `args`: its name, where it is chosen."""


class Resolver:
    """Resolver of the runs of one trainer. `pieces` makes pieces of overrides, `sections` makes sections of pieces.

    folder   the folder of the experiment file, to which folders in the config are relative
    """

    def __init__(self, spec: Trainer, folder: Path = Path()) -> None:
        self.spec = spec
        schema = schema_of(spec.config_type)
        self.schema = schema
        self.pieces = PieceMaker(schema, conf_of(spec.conf) if spec.conf else None, folder)
        self.fields = [field.name for field in dataclasses.fields(spec.config_type) if field.name in schema.defaults]
        self.sorted_fields = sorted(self.fields)
        self.sections = SectionMaker(spec, schema, self.fields)
        self._idle = Recorded(checked_call(spec, "idle_keys"))
        self._validate = checked_call(spec, "validate")
        self._valid = Recorded(self._validate)
        self._facts = Recorded(checked_call(spec, "fingerprint"))
        self._prepare = Recorded(checked_call(spec, "preparation"))
        stated = checked_call(spec, "resources")
        self._resources = Recorded(lambda config: Resources.of(stated(config)).as_dict())
        self._code = code_facts(TRAINER, type(spec))
        self._source_files = Recorded(lambda config: config_code(spec, config))

    def resolve(self, pieces: Mapping[str, Piece], trainer: str, where: Callable[[], str]) -> Resolved:
        """Return the config that these pieces (by target, in the order of merging) make, and its identity.

        trainer  the name under which the trainer was chosen
        where    returns the position of the cell, for messages

        Raises SpecError, at the position of a piece or of the cell, if the config cannot run, and OtherTrainer if the
        pieces choose another trainer.
        """
        sections: Mapping[str, Section] = self.sections.all(by_section(pieces))
        stated = sections.get("trainer")
        if stated is not None and stated.value not in (trainer, self.spec.name):
            raise OtherTrainer(stated.value, place_of("trainer", pieces.values()))
        try:
            sections = self._effective(sections, pieces)
            checked = self._check(sections)
        except SpecError as error:
            raise _located(error, pieces, where()) from None
        sections = checked.normalised or sections
        config = {name: section.value for name, section in sections.items()}
        fragments = [text for name in self.sorted_fields if (text := sections[name].text)]
        labels = [section.label for section in sections.values() if section.label]
        label = "-".join(labels) if labels else readable([self.spec.name, *self._plain_labels(config)])
        before = checked.earlier
        earlier = (identity(fragments, before[0]), before[1]) if before is not None else None
        return Resolved(
            identity(fragments, checked.extra), label, config, (*fragments, checked.extra), checked, earlier
        )

    def _effective(self, sections: Mapping[str, Section], pieces: Mapping[str, Piece]) -> Mapping[str, Section]:
        """Return the sections without overrides of keys that have no effect in this config.

        These keys keep the value of their config group, so that such an override makes no new run.
        """
        idle = self._idle({name: section.value for name, section in sections.items()}, sections)
        if self.pieces.overridden.isdisjoint(idle):
            return sections
        kept = {target: piece for target, piece in pieces.items() if target not in idle}
        touching = by_section(kept)
        names = {key.partition(".")[0] for key in idle if key in self.pieces.overridden}
        return {**sections, **{name: self.sections.section(name, touching) for name in names}}

    def _check(self, sections: Mapping[str, Section]) -> Checked:
        """Return the trainer's answers about a config; each is cached by the sections that it reads."""
        item = self.spec.config_type(**{name: section.item for name, section in sections.items()})
        valid, normalised = item, None
        if self._valid(item, sections) is not SAME:
            valid = self._validate(item)
            normalised = self.sections.normalised(valid, sections)
        final = normalised or sections
        facts = self._facts(valid, final)
        prepare = self._prepare(valid, final)
        resources = self._resources(valid, final)
        files, files_before = self._source_files(valid, final)
        others = [*self._code, *(pair for section in final.values() for pair in section.plugins)]
        plugins = sorted([*others, *files])
        left_out = [key for section in final.values() for key in section.left_out]
        extra = canonical([self.spec.name, self.spec.version, plugins, facts])
        recorded = {"trainer": self.spec.name, "plugins": plugins, "left_out": left_out}
        earlier = None
        if files_before != files:
            before = sorted([*others, *files_before])
            text = canonical([self.spec.name, self.spec.version, before, facts])
            earlier = text, {**recorded, "plugins": before}
        return Checked(prepare, resources, facts, extra, recorded, normalised, earlier)

    def _plain_labels(self, config: Mapping[str, Any]) -> list[str]:
        """Return labels for a config without named groups: its texts, and the numbers that are not the defaults."""
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
    """Add the position of the key that a trainer's check names, and the run, to the error."""
    if isinstance(error, PluginError):  # it names a file and a line
        error.where = f"{error.where} ({place})" if error.where else place
        return error
    key = error.where
    key_place = place_of(key, chosen.values()) if key else None
    error.where = f"{key_place} ({key}; {place})" if key_place else f"{place} ({key})" if key else place
    return error
