"""Sweep an experiment file that the call names, and export its runs as a bundle into the results."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from steps.step import Step

LARGEST = 12_000_000  # bytes of a bundle that goes into the results


def main() -> None:
    step = Step("free")
    assert step.experiment is not None
    file = step.experiment
    step.measure(file.name, lambda: swept(step, file))


def swept(step: Step, file: Path) -> dict[str, Any]:
    """Return the exit codes of the sweep and of the export of its finished runs, and the bundle's size."""
    home, bundle = step.folder / "home-free", step.folder / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    plat = [sys.executable, "-m", "plat"]
    sweep = subprocess.run([*plat, "sweep", str(file), "--home", str(home)]).returncode
    export = subprocess.run([*plat, "export", str(file), "--home", str(home), "--out", str(bundle)]).returncode
    size = sum(path.stat().st_size for path in bundle.rglob("*") if path.is_file())
    if 0 < size <= LARGEST:
        shutil.make_archive(str(step.folder / "steps" / "free-bundle"), "gztar", bundle)
    return {"sweep ended with": sweep, "export ended with": export, "bytes of the bundle": size}


if __name__ == "__main__":
    main()
