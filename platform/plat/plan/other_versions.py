"""Which runs of a home another version of their trainer made: they have other ids, and no report shows them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from plat.spec.experiment import Run
from plat.store.home import Home
from plat.store.run_directory.files import config_hash, load_meta
from plat.units import are, counted


def other_versions(runs: Iterable[Run], home: Home) -> list[str]:
    """Lines about runs of these configs that are here from another version of the trainer; [] where there are none.

    Runs that are here from this version as well are not counted.
    """
    ids = set(home.run_ids())
    missing = {(run.trainer, config_hash(run.config)): run.version for run in runs if run.id not in ids} if ids else {}
    found: Counter[tuple[str, str, str]] = Counter()
    for run_id in sorted(ids) if missing else ():
        meta = load_meta(home.run(run_id)) or {}
        trainer, version = str(meta.get("trainer", "")), str(meta.get("trainer_version", ""))
        asked = missing.get((trainer, meta.get("config_sha256", "")))
        if asked is not None and version != asked and home.run(run_id).result.exists():
            found[trainer, version, asked] += 1
    return [
        f"{counted(number, 'run')} of these configs {are(number)} here from {trainer} {theirs}, and {ours} is "
        f"installed. They are other runs, and not shown: install {trainer} {theirs} to see them."
        for (trainer, theirs, ours), number in sorted(found.items())
    ]
