"""Find the runs of a bundle that differ from a run in the seed and the build of the base model only.

The parts of a run's id are compared without those two: trainer and version, scheme of ids, config, plug-ins and
fingerprint. Base models are compared within a build, because each build has a different content.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from plat.spec.composition.schema import leaves
from plat.spec.expansion.run import Run
from plat.spec.identity.run_identity import SCHEME, canonical, result_affecting

SEEDS = ("seed", "model.base.seed")  # these differ within a cell
BASE = "base"  # the base model's entry in a fingerprint
SHOWN = 3  # most differing keys in a message


@dataclass(frozen=True)
class Origin:
    """Hold the parts of a run's id; `config` has only the keys that are part of it."""

    trainer: str
    version: str
    scheme: int
    config: Mapping[str, Any]
    plugins: str
    fingerprint: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_run(cls, run: Run) -> Origin:
        """Return the parts of the id of a run of an experiment file, as this version of plat makes it."""
        meta = {"trainer": run.trainer, "trainer_version": run.version, "identity_scheme": SCHEME}
        return cls.of_record({**meta, "identity": run.identity, "fingerprint": run.fingerprint}, run.config)

    @classmethod
    def of_record(cls, meta: Mapping[str, Any], config: Mapping[str, Any]) -> Origin:
        """Return the parts of the id of a recorded run, from its meta.json and its config."""
        identity = meta.get("identity") or {}
        kept = result_affecting("", dict(config), tuple(identity.get("left_out", ())), {})[1]
        return cls(
            str(identity.get("trainer", meta["trainer"])),
            str(meta.get("trainer_version") or ""),
            int(meta.get("identity_scheme", 1)),
            kept or {},
            canonical(identity.get("plugins", [])),
            meta.get("fingerprint") or {},
        )

    @cached_property
    def settings(self) -> str:
        """Return the config without the seeds, in canonical form."""
        return canonical(result_affecting("", dict(self.config), SEEDS, {})[1])

    @cached_property
    def flat(self) -> dict[str, Any]:
        """Return dotted key -> value of the config."""
        return leaves(self.config)

    @cached_property
    def build(self) -> str:
        """Return the build of the base model, in canonical form."""
        base = (self.config.get("model") or {}).get("base")
        return canonical(base.get("seed") if isinstance(base, dict) else None)


def difference(own: Origin, other: Origin) -> str:
    """Return why two runs of equal settings cannot be compared; "" if they can.

    The text says what the other run has, and what `own` has: `identity scheme 2, not 3`.
    """
    if (other.trainer, other.version) != (own.trainer, own.version):
        return f"trainer {other.trainer} {other.version}, not {own.trainer} {own.version}"
    if other.scheme != own.scheme:
        return f"identity scheme {other.scheme}, not {own.scheme}"
    if other.plugins != own.plugins:
        return f"plug-ins {other.plugins}, not {own.plugins}"
    same_build = other.build == own.build
    for key in sorted({*own.fingerprint, *other.fingerprint}):
        if key == BASE and not same_build:
            continue
        if canonical(own.fingerprint.get(key)) != canonical(other.fingerprint.get(key)):
            named = "base model" if key == BASE else key
            return f"different content of `{named}` ({_brief(other, key)}, not {_brief(own, key)})"
    return ""


def _brief(origin: Origin, key: str) -> str:
    text = canonical(origin.fingerprint.get(key))
    return text if len(text) <= 60 else text[:59] + "…"


def differing_settings(own: Origin, other: Origin) -> list[str]:
    """Return a text for each key, except seeds, whose values differ, that of `other` first: `train.lr 0.1, not 0.2`."""
    ours, theirs = own.flat, other.flat
    keys = [key for key in sorted({*ours, *theirs}) if key not in SEEDS and ours.get(key) != theirs.get(key)]
    return [f"{key} {theirs.get(key, 'unset')}, not {ours.get(key, 'unset')}" for key in keys]
