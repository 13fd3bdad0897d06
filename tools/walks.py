"""Count the files of plat in which a function is called while a command of a checkout runs.

    override     `plat plan FILE filter.eps=0.0`
    metric       `plat sweep FILE` of one run at smoke scale: from the book-keeper to a cell of the report
    submission   `plat sweep FILE --on slurm --detach`, to the fake SLURM of tests/contract

Each process of the command records its own calls by `sys.setprofile`, set in a `sitecustomize` on its PYTHONPATH.
Calls that an import makes do not count.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

EXPERIMENT = """
title: A walk
base: {scale: smoke}
matrix: {task: [frozenlake], seed: [0]}
report:
  - {builder: metric_panels, conditions: task, rows: algorithm, metrics: {success: val/success}}
"""
PLAT = "import sys; from plat.entry import main; sys.argv = ['plat', *sys.argv[1:]]; main()"
# Starts the fake SLURM of this checkout without a slot, so that the job waits, and submits to it.
SUBMIT = """
import os, pathlib, subprocess, sys
sys.setprofile(None)
sys.path.insert(0, sys.argv[1] + "/tests/contract")
from clusters import FakeSlurm, QUICK
slurm = FakeSlurm(pathlib.Path("slurm").absolute())
slurm.set(slots=0)
command = [sys.executable, "-c", sys.argv[2], *sys.argv[3:], "--on", "slurm", "--detach", *QUICK]
status = subprocess.run(command, env={**os.environ, **slurm.environment}).returncode
slurm.stop()
sys.exit(status)
"""
WALKS = {
    "override": ("plan", "walk.yaml", "filter.eps=0.0"),
    "metric": ("sweep", "walk.yaml", "--jobs", "1"),
    "submission": ("sweep", "walk.yaml"),
}
RECORDER = """
import os, sys, threading

FOLDER, RECORD = os.environ["PLAT_WALK_FOLDER"], os.environ["PLAT_WALK_RECORD"]
seen = set()

def importing(frame):
    while frame is not None:
        if frame.f_code.co_name == "<module>" and frame.f_globals.get("__name__") != "__main__":
            return True
        frame = frame.f_back
    return False

def record(frame, event, argument):
    if event != "call":
        return
    code = frame.f_code
    name = code.co_filename
    if name in seen or not name.startswith(FOLDER) or not code.co_flags & 1 or importing(frame):
        return
    seen.add(name)  # bit 1 of co_flags: a function, not a module or the body of a class
    file = os.open(RECORD, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, name.encode() + b"\\n")
    os.close(file)

sys.setprofile(record)
threading.setprofile(record)
"""


def files_called(root: Path, walk: str) -> list[str]:
    """Return the files below `root`/platform/plat in which a walk calls a function, relative to that folder, sorted.

    `walk` is a key of WALKS. Runs the code of `root` with this interpreter. Raises subprocess.SubprocessError if the
    command fails or takes longer than five minutes.
    """
    root = root.absolute()
    plat = root / "platform" / "plat"
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "walk.yaml").write_text(EXPERIMENT)
        (folder / "sitecustomize.py").write_text(RECORDER)
        publish_entry_points(root, folder)
        paths = [folder, *(root / room for room in ("platform", "envs", "analysis")), root]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(map(str, paths)),
            "PLAT_HOME": str(folder / "home"),
            "PLAT_WALK_FOLDER": f"{plat}{os.sep}",
            "PLAT_WALK_RECORD": str(folder / "called"),
        }
        environment.pop("MLFLOW_TRACKING_URI", None)
        before = [SUBMIT, str(root), PLAT] if walk == "submission" else [PLAT]
        command = [sys.executable, "-c", *before, *WALKS[walk]]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
        if done.returncode:
            raise subprocess.SubprocessError(f"exit status {done.returncode}: {done.stderr.strip()[-2000:]}")
        return sorted({str(Path(line).relative_to(plat)) for line in (folder / "called").read_text().splitlines()})


def publish_entry_points(root: Path, folder: Path) -> None:
    """Write the entry points of `root`'s pyproject.toml into `folder`; they win if it comes first on PYTHONPATH."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    metadata = folder / f"{project['name']}-{project['version']}.dist-info"
    metadata.mkdir()
    facts = ("Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}", "")
    (metadata / "METADATA").write_text("\n".join(facts))
    lines = []
    for group, points in project["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in points.items())]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")
