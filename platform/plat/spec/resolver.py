"""From a choice of pieces to a run's config and identity, fast enough for 100,000 runs.

Each section (top-level key) of a config is made once per distinct choice of the pieces that set it, and the results of
the trainer's own checks are remembered by the sections that they read. A run then costs a few dictionary look-ups, one
join and one hash.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plat.errors import PluginError, SpecError
from plat.spec.conf import conf_of
from plat.spec.identity import canonical, identity, readable
from plat.spec.pieces import Piece, PieceMaker, place_of
from plat.spec.recorded import SAME, Recorded
from plat.spec.schema import schema_of
from plat.spec.sections import Section, SectionMaker
from plat.spec.trainer_calls import checked_call
from plat.trainer.api import TrainerSpec
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


class OtherTrainer(Exception):
    """The pieces choose a trainer other than the one whose schema they were resolved with."""

    def __init__(self, name: str, where: str | None) -> None:
        super().__init__(name)
        self.name = name
        self.where = where


class Resolver:
    """Resolves the runs of one trainer. Its `pieces` turn overrides into what `resolve` chooses from."""

    def __init__(self, spec: TrainerSpec) -> None:
        self.spec = spec
        schema = schema_of(spec.config_type)
        self.schema = schema
        self.pieces = PieceMaker(schema, conf_of(spec.conf) if spec.conf else None)
        self.fields = [field.name for field in dataclasses.fields(spec.config_type) if field.name in schema.defaults]
        self.sorted_fields = sorted(self.fields)
        self._sections = SectionMaker(spec, schema)
        self._valid = Recorded(checked_call(spec, "validate"))
        self._facts = Recorded(checked_call(spec, "fingerprint"))
        self._prepare = Recorded(checked_call(spec, "prepare"))
        stated = checked_call(spec, "resources")
        self._shared: dict[tuple[Any, ...], tuple[str, dict[str, Any]]] = {}
        self._resources = Recorded(lambda config: Resources.of(stated(config)).as_dict())

    def resolve(self, chosen: Mapping[str, Piece], trainer: str, place: str) -> Resolved:
        """The config of one choice of pieces and its identity; SpecError, at `place` or a piece's, if it cannot run."""
        touching: dict[str, list[Piece]] = {}
        for piece in chosen.values():
            for top in piece.deltas:
                if top in touching:
                    touching[top].append(piece)
                else:
                    touching[top] = [piece]
        sections = {name: self._sections.section(name, touching) for name in self.fields}
        config = {name: section.value for name, section in sections.items()}
        if config.get("trainer", trainer) not in (trainer, self.spec.name):
            raise OtherTrainer(config["trainer"], place_of("trainer", chosen.values()))
        item = self.spec.config_type(**{name: section.item for name, section in sections.items()})
        try:
            valid = item
            if self._valid(item, sections) is not SAME:
                valid = self.spec.validate(item)
                sections = self._sections.normalised(valid, sections)
                config = {name: section.value for name, section in sections.items()}
            facts = self._facts(valid, sections)
            prepare = self._prepare(valid, sections)
            resources = self._resources(valid, sections)
        except SpecError as error:
            raise _located(error, chosen, place) from None
        fragments = [text for name in self.sorted_fields if (text := sections[name].text)]
        extra, recorded = self._besides_config(sections, facts)
        identifier = identity(fragments, extra)
        labels = [section.label for section in sections.values() if section.label]
        label = "-".join(labels) if labels else readable([self.spec.name, *self._plain_labels(config)])
        return Resolved(identifier, label, config, (*fragments, extra), prepare, resources, recorded, facts)

    def _besides_config(self, sections: Mapping[str, Section], facts: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """What is hashed besides the config, as text, and the part of it that a run records; shared by most runs."""
        plugins = tuple([pair for section in sections.values() for pair in section.plugins])
        left_out = tuple([key for section in sections.values() for key in section.left_out])
        memo = (id(facts), plugins, left_out)  # the facts live as long as `_facts`, which remembers them
        if memo not in self._shared:
            extra = canonical([self.spec.name, self.spec.version, sorted(plugins), facts])
            recorded = {"trainer": self.spec.name, "plugins": sorted(plugins), "left_out": list(left_out)}
            self._shared[memo] = extra, recorded
        return self._shared[memo]

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
