"""What all steps share: their arguments, and a record that keeps each measurement as soon as it is made."""

from __future__ import annotations

import argparse
import json
import os
import signal
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

GIB = 1 << 30


class Step:
    """One step of the kit, in its own process. `measure` skips what an earlier call has measured."""

    def __init__(self, name: str) -> None:
        parser = argparse.ArgumentParser()
        parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
        parser.add_argument("--folder", type=Path, required=True)
        parser.add_argument("--tiny", action="store_true")
        parser.add_argument("--experiment", type=Path)
        given = parser.parse_args()
        self.device, self.tiny, self.folder = str(given.device), bool(given.tiny), Path(given.folder)
        self.experiment: Path | None = given.experiment
        self._path = self.folder / "steps" / f"{name}.json"
        self._record: dict[str, Any] = json.loads(self._path.read_text()) if self._path.exists() else {}
        self.measured: dict[str, dict[str, Any]] = self._record.setdefault("measured", {})
        threading.Thread(target=_end_with_parent, daemon=True).start()

    def measure(
        self, name: str, work: Callable[[], dict[str, Any]], gigabytes: float = 0, bfloat16: bool = False
    ) -> None:
        """Keep what `work` returns under a name, unless it is there. An error is kept as one line; the step continues.

        Args:
            gigabytes: GiB of memory on the card that the work needs; where less is free it is left out, which is said.
            bfloat16: the work needs a card with bfloat16.
        """
        if name in self.measured and not {"error", "skipped"} & set(self.measured[name]):
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
        torch.cuda.empty_cache()
        free = torch.cuda.mem_get_info()[0] / GIB
        return f"it needs {gigabytes:.0f} GiB, and {free:.0f} GiB of the card are free" if free < gigabytes else ""

    def keep(self) -> None:
        """Write the record, whole or not at all."""
        writing = self._path.with_suffix(".writing")
        writing.write_text(json.dumps(self._record, indent=1))
        writing.replace(self._path)


def _end_with_parent() -> None:
    """End this step with all its processes when the program that started it has ended."""
    while os.read(0, 1):
        pass
    os.killpg(0, signal.SIGKILL)
