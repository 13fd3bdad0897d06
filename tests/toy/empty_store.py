"""`python tests/toy/empty_store.py` writes the empty store that travels with plat, of which new stores are copies.

Give it after a change of the pinned MLflow. MLflow's own command makes the store.
"""

from __future__ import annotations

import lzma
import subprocess
import sys
import tempfile
from pathlib import Path

from plat.store.mlflow.sqlite_file import packaged_store


def main() -> None:
    for old in packaged_store().parent.glob("empty_store_*.db.xz"):
        old.unlink()
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "mlflow.db"
        subprocess.run([sys.executable, "-m", "mlflow", "db", "upgrade", f"sqlite:///{database}"], check=True)
        packaged_store().write_bytes(lzma.compress(database.read_bytes(), preset=9))


if __name__ == "__main__":
    main()
