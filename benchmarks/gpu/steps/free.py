"""Sweep an experiment file that the call names, and export its finished runs as a bundle into the results.

The sweep is asked to stop some seconds before the time is over; a further call continues it.
"""

from __future__ import annotations

import hashlib
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from steps.step import Step

LARGEST = 12_000_000  # bytes of a bundle that goes into the results
TO_END = 30.0  # seconds for the sweep to save and stop, and for the export


def main() -> None:
    step = Step("free")
    assert step.experiment is not None
    digest = hashlib.sha256(step.experiment.read_bytes()).hexdigest()[:8]
    step.measure(f"{step.experiment.name} {digest}", lambda: swept(step, str(step.experiment)))


def swept(step: Step, file: str) -> dict[str, Any]:
    """Return the exit code of the sweep, and the size of the bundle. Raises RuntimeError if the sweep is not done."""
    home, bundle = step.folder / "home-free", step.folder / "bundle"
    shutil.rmtree(bundle, ignore_errors=True)
    plat = [sys.executable, "-m", "plat"]
    sweep = subprocess.Popen([*plat, "sweep", file, "--home", str(home)])
    try:
        code = sweep.wait(max(1.0, step.left() - TO_END))
    except subprocess.TimeoutExpired:
        sweep.send_signal(signal.SIGINT)
        code = sweep.wait()
    export = subprocess.run([*plat, "export", file, "--home", str(home), "--out", str(bundle)]).returncode
    size = _size(bundle)
    if 0 < size <= LARGEST:
        shutil.make_archive(str(step.folder / "steps" / "free-bundle"), "gztar", bundle)
    if code:
        raise RuntimeError(f"plat sweep ended with {code}, plat export with {export}; the bundle has {size} bytes")
    return {"plat sweep ended with": code, "plat export ended with": export, "bytes of the bundle": size}


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
