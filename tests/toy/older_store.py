"""A small experiment, and a home in which plat 0.4 has swept it, packed as that version left it.

The archive has `fit.py`, `rates.yaml` and `plat-home` with `mlflow.db`, `mlartifacts` and `runs`. It was made with the
last commit whose stores have the metrics in MLflow's tables alone (59a781c2): `plat sweep rates.yaml`. Only PNG and PDF
pictures of its report were removed, to keep it small.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

ARCHIVE = Path(__file__).with_name("older_store.tar.xz")


def unpack(folder: Path) -> Path:
    """Unpack the archive into a folder; the home."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder / "plat-home"
