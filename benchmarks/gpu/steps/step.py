"""What all steps share: their arguments, and a record that keeps each measurement as soon as it is made."""

from __future__ import annotations

import argparse
import gc
import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

GIB = 1 << 30
PATIENCE = 20.0  # seconds for the processes of an earlier step to give the card's memory back


class Step:
    """One step of the kit, in its own process. `measure` skips what an earlier call has measured."""

    def __init__(self, name: str) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
        parser.add_argument("--folder", type=Path, required=True)
        parser.add_argument("--tiny", action="store_true")
        parser.add_argument("--experiment", type=Path)
        parser.add_argument("--seconds", type=float, default=600)
        given = parser.parse_args()
        self.device, self.tiny, self.folder = str(given.device), bool(given.tiny), Path(given.folder)
        self.experiment: Path | None = given.experiment
        self._until = time.monotonic() + given.seconds
        self._path = self.folder / "steps" / f"{name}.json"
        self._record = _read(self._path)
        self.measured: dict[str, dict[str, Any]] = self._record.setdefault("measured", {})
        threading.Thread(target=_end_with_parent, daemon=True).start()

    def has(self, name: str) -> bool:
        """Return True if a measurement is there, by this call or an earlier one."""
        return name in self.measured and not {"error", "skipped"} & set(self.measured[name])

    def left(self) -> float:
        """Return the seconds until the step is ended."""
        return self._until - time.monotonic()

    def measure(
        self, name: str, work: Callable[[], dict[str, Any]], gigabytes: float = 0, bfloat16: bool = False
    ) -> None:
        """Keep what `work` returns under a name, unless it is there. An error is kept as one line; the step continues.

        Args:
            gigabytes: GiB of memory on the card that the work needs; where less is free it is left out, which is said.
            bfloat16: the work needs a card with bfloat16.
        """
        if self.has(name):
            return
        reason = self.unable(gigabytes, bfloat16)
        print(f"-- {name}" + (f": left out, {reason}" if reason else ""), flush=True)
        try:
            self.measured[name] = {"skipped": reason} if reason else work()
        except Exception as error:
            traceback.print_exc()
            self.measured[name] = {"error": (str(error).strip() or type(error).__name__).splitlines()[0][:300]}
        self.keep()

    def unable(self, gigabytes: float, bfloat16: bool) -> str:
        """Return why this device cannot do the work; "" if it can."""
        if self.device == "cpu":
            return ""
        import torch

        if not torch.cuda.is_available():
            return "torch sees no CUDA device"
        if bfloat16 and not torch.cuda.is_bf16_supported(including_emulation=False):
            return "the card has no bfloat16"
        gc.collect()  # a run is a circle of references
        torch.cuda.empty_cache()
        until = time.monotonic() + PATIENCE
        while (free := torch.cuda.mem_get_info()[0] / GIB) < gigabytes and time.monotonic() < until:
            time.sleep(0.5)
        return f"it needs {gigabytes:.0f} GiB, and {free:.0f} GiB of the card are free" if free < gigabytes else ""

    def keep(self) -> None:
        """Write the record, whole or not at all."""
        writing = self._path.with_suffix(".writing")
        writing.write_text(json.dumps(self._record, indent=1))
        writing.replace(self._path)


def _read(path: Path) -> dict[str, Any]:
    """Return the record of earlier calls; a new one if there is none, or if it cannot be read."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    sound = isinstance(record, dict) and isinstance(record.get("measured", {}), dict)
    return record if sound and all(isinstance(one, dict) for one in record.get("measured", {}).values()) else {}


def _end_with_parent() -> None:
    """End this step with all its processes when the program that started it has ended."""
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)
