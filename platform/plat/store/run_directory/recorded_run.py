"""A run as its directory records it, for whoever has no experiment file at hand."""

from __future__ import annotations

from plat.spec.runs import Run
from plat.store.run_directory.files import headline_of, read_config, read_meta
from plat.store.run_directory.paths import RunPaths


def read_run(paths: RunPaths) -> Run:
    """The run of a directory; HomeError when its config or meta.json is missing or damaged."""
    meta = read_meta(paths)
    prepare = meta.get("prepare")
    return Run(
        meta["id"],
        meta["name"],
        meta["axes"],
        meta["trainer"],
        read_config(paths),
        (prepare[0], prepare[1]) if prepare else None,
        meta.get("resources", {}),
        headline=headline_of(meta),
    )
