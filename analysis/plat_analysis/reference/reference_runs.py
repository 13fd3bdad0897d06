"""Read the reference of an experiment file: the runs of its bundle, by the runs of the report that they match.

They match if they differ in the seed and the build of the base model only: the other parts of a run's id are compared
(trainer and version, scheme of ids, config, plug-ins and fingerprint). Base models are compared within a build, because
each build has a different content.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from plat.errors import BundleError
from plat.plain_files import parse_yaml
from plat.spec.composition.schema import leaves
from plat.spec.expansion.experiment import Experiment
from plat.spec.expansion.run import Run
from plat.spec.identity.run_identity import SCHEME, canonical, result_affecting
from plat.store.bundle.bundle_frames import BundleResults, read_results
from plat.store.bundle.format import MANIFEST
from plat_analysis.data.results import Results, RunView

HELDOUT = ("heldout/success", "heldout/final_success", "heldout/base_success")
SEED_LINE = re.compile(r"^seed: .*\n", re.MULTILINE)


class Reference:
    """Hold the runs of the bundle that differ in seed and build only from some run of the experiment.

    results  the values of those runs
    problem  why runs of the report have none; "" where all have some
    """

    def __init__(self, experiment: Experiment, bundle: BundleResults) -> None:
        origins = _origins(bundle)
        by_settings: dict[str, list[str]] = {}
        for run_id, origin in origins.items():
            by_settings.setdefault(origin.settings, []).append(run_id)
        runs: dict[str, Run] = {}
        self._beside: dict[str, list[str]] = {}
        reasons: dict[str, int] = {}
        for own in experiment.runs:
            reason, ids = _comparable(own, by_settings, origins)
            self._beside[own.id] = ids
            runs |= {run_id: _run(run_id, own, bundle, origins[run_id]) for run_id in ids}
            if reason:
                reasons[reason] = reasons.get(reason, 0) + 1
        self.results = Results(bundle.frames, replace(experiment, runs=list(runs.values()), cells=[]))
        self._views = {view.id: view for view in self.results.runs}
        self.problem = ""
        if reasons:
            others = " or similar" if len(reasons) > 1 else ""
            of = f"({sum(reasons.values())} of {len(experiment.runs)} runs)"
            self.problem = f"{max(reasons, key=lambda reason: reasons[reason])}{others} {of}"

    def beside(self, run: Run) -> list[RunView]:
        """Return the reference runs of a run's settings, itself included; [] if one of them cannot be compared."""
        return [self._views[run_id] for run_id in self._beside[run.id]]


def reference_of(experiment: Experiment, metrics: Iterable[str] = HELDOUT, tables: bool = False) -> Reference | None:
    """Return the reference of an experiment file; None if it names none, or the folder does not exist.

    metrics  read besides the headline
    tables   read the logged tables, too

    Raises BundleError if the bundle is damaged.
    """
    folder = experiment.reference_folder
    if folder is None or not folder.exists():
        return None
    headlines = {run.headline for run in experiment.runs}
    try:
        status = (folder / MANIFEST).stat()
        stamp = (status.st_size, status.st_mtime_ns)
    except OSError:
        stamp = (0, 0)
    try:
        bundle = _read(folder.absolute(), frozenset({*metrics, *headlines}), tables, stamp)
    except BundleError as error:
        error.fix = f"{error.fix}; or remove `reference:` from {experiment.path.name}"
        raise
    return Reference(experiment, bundle)


def reference_problem(experiment: Experiment) -> str:
    """Return why some or all runs cannot be compared with the reference; "" if they can, or the file names none.

    Needs no results. Raises BundleError if the bundle is damaged.
    """
    folder = experiment.reference_folder
    if folder is not None and not folder.exists():
        return f"no comparison with reference results: there is no {experiment.reference}"
    reference = reference_of(experiment)
    return f"no comparison with {experiment.reference}: {reference.problem}" if reference and reference.problem else ""


@lru_cache(maxsize=4)
def _read(folder: Path, metrics: frozenset[str], tables: bool, stamp: tuple[int, int]) -> BundleResults:
    """Read a bundle, cached for all tables of a report; `stamp` changes with the bundle."""
    return read_results(folder, metrics, tables=tables)


def _origins(bundle: BundleResults) -> dict[str, Origin]:
    """Return run id -> the parts of the id. Configs that differ in the line of the seed only are parsed once."""
    parsed: dict[str, dict[str, Any]] = {}
    origins = {}
    for run_id, text in bundle.configs.items():
        masked = SEED_LINE.sub("", text)
        if masked not in parsed:
            parsed[masked] = parse_yaml(masked)
        seed = (SEED_LINE.search(text) or [""])[0]
        origins[run_id] = Origin.of_record(bundle.metas[run_id], parsed[masked] | (parse_yaml(seed) or {}))
    return origins


def _comparable(
    own: Run, by_settings: Mapping[str, Sequence[str]], origins: Mapping[str, Origin]
) -> tuple[str, list[str]]:
    """Return (why there are none, the ids of the runs that can be compared with a run).

    One incompatible run excludes all runs of its settings: two kinds are never mixed.
    """
    origin = Origin.of_run(own)
    ids = by_settings.get(origin.settings, ())
    differences = dict.fromkeys(text for run_id in ids if (text := difference(origin, origins[run_id])))
    if differences:
        return f"it has {next(iter(differences))}", []
    return ("", list(ids)) if ids else (_nearest(origin, origins), [])


def _nearest(own: Origin, origins: Mapping[str, Origin]) -> str:
    """Return the settings of the run with the fewest differences."""
    if not origins:
        return "it has no runs"
    distinct = {origin.settings: origin for origin in origins.values()}
    lists = [(differing_settings(own, origin), origin) for origin in distinct.values()]
    keys, nearest = min(lists, key=lambda pair: len(pair[0]))
    if (nearest.trainer, nearest.version) != (own.trainer, own.version):
        return f"it has {difference(own, nearest)}"
    if len(keys) > SHOWN:
        keys = [*keys[:SHOWN], "..."]
    return f"it has no run of these settings (the nearest has {'; '.join(keys)})"


def _run(run_id: str, own: Run, bundle: BundleResults, origin: Origin) -> Run:
    """Return a run of the bundle in the form of a run of the report."""
    axes = {axis: label for axis, label in own.axes.items() if axis not in SEEDS}
    meta = bundle.metas[run_id]
    return replace(own, id=run_id, name=str(meta.get("name", run_id)), axes=axes, config=dict(origin.config))


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
