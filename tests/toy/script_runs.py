"""A script that counts, an experiment file for a script, and the runs of a folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths

COUNTS = """
import json, os, pathlib, signal, sys, time
kept = pathlib.Path(os.environ["PLAT_CHECKPOINT_DIR"], "step.txt")
first = int(kept.read_text()) + 1 if kept.exists() else 1
for step in range(first, 9):
    print(json.dumps({"step": step, "loss": 1 / step, "seed": int(os.environ["PLAT_SEED"])}))
    kept.write_text(str(step))
    time.sleep(0.15)
    if step == 6 and first == 1 and "--crash" in sys.argv:
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGKILL)
"""


def experiment(folder: Path, command: str, *lines: str, **axes: Any) -> Path:
    path = folder / "mine.yaml"
    matrix = "".join(f"  {name}: {json.dumps(values)}\n" for name, values in {"seed": [0], **axes}.items())
    base = "".join(f"  {line}\n" for line in ("trainer: script", f"script.command: {json.dumps(command)}", *lines))
    path.write_text(f"title: My script\nbase:\n{base}matrix:\n{matrix}")
    return path


def runs_of(folder: Path) -> list[RunPaths]:
    home = Home(folder / "plat-home")
    return [home.run(run_id) for run_id in home.run_ids()]
