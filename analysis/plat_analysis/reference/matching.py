"""Which runs of a bundle differ from a run in nothing but the seed and the build of the base model.

What a run's id is made of is compared, without those two: trainer and version, scheme of ids, config, plug-ins and
fingerprint. Each build of a base model has a content of its own, so base models are compared build by build.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from plat.spec.identity import SCHEME, canonical, result_affecting
from plat.spec.runs import Run
from plat.spec.schema import leaves

SEEDS = ("seed", "model.base.seed")  # what distinguishes the runs of one cell
BASE = "base"  # the entry of a fingerprint that says what the base model is
SHOWN = 3  # differing keys of two configs that are named


@dataclass(frozen=True)
class Origin:
    """What a run's id is made of."""

    trainer: str
    version: str
    scheme: int
    config: Mapping[str, Any]
    plugins: str
    fingerprint: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of_run(cls, run: Run) -> Origin:
        """Of a run that this plat makes."""
        return cls._made(run.trainer, run.version, SCHEME, run.config, run.identity, run.fingerprint)

    @classmethod
    def of_record(cls, meta: Mapping[str, Any], config: Mapping[str, Any]) -> Origin:
        """Of a recorded run, from its meta.json and its config."""
        scheme, fingerprint = int(meta.get("identity_scheme", 1)), meta.get("fingerprint") or {}
        version = str(meta.get("trainer_version") or "")
        return cls._made(str(meta["trainer"]), version, scheme, config, meta.get("identity") or {}, fingerprint)

    @classmethod
    def _made(
        cls,
        trainer: str,
        version: str,
        scheme: int,
        config: Mapping[str, Any],
        identity: Mapping[str, Any],
        fingerprint: Mapping[str, Any],
    ) -> Origin:
        kept = result_affecting("", dict(config), tuple(identity.get("left_out", ())), {})[1]
        return cls(
            str(identity.get("trainer", trainer)),
            version,
            scheme,
            kept or {},
            canonical(identity.get("plugins", [])),
            fingerprint,
        )

    @cached_property
    def settings(self) -> str:
        """The config without the seeds, in its one spelling."""
        return canonical(result_affecting("", dict(self.config), SEEDS, {})[1])

    @cached_property
    def flat(self) -> dict[str, Any]:
        """The config with dotted keys."""
        return leaves(self.config)

    @cached_property
    def build(self) -> str:
        """The build of the base model, in its one spelling."""
        base = (self.config.get("model") or {}).get("base")
        return canonical(base.get("seed") if isinstance(base, dict) else None)


def difference(own: Origin, other: Origin) -> str:
    """Why two runs of equal settings cannot be compared, as what the other one has; "" where they can be."""
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
            return f"another content of `{named}` ({_brief(other, key)}, not {_brief(own, key)})"
    return ""


def _brief(origin: Origin, key: str) -> str:
    text = canonical(origin.fingerprint.get(key))
    return text if len(text) <= 60 else text[:59] + "…"


def differing_settings(own: Origin, other: Origin) -> list[str]:
    """`train.lr 0.1, not 0.2`: the keys, seeds left out, whose values differ; the other's value first."""
    ours, theirs = own.flat, other.flat
    keys = [key for key in sorted({*ours, *theirs}) if key not in SEEDS and ours.get(key) != theirs.get(key)]
    return [f"{key} {theirs.get(key, 'unset')}, not {ours.get(key, 'unset')}" for key in keys]
