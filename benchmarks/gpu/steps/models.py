"""Make the models of the other steps, with random weights."""

from __future__ import annotations

import shutil
import time
from functools import partial
from typing import Any

from random_models import SHAPES, TINY, folder_of, make_model

from steps.step import Step


def main() -> None:
    step = Step("models")
    for size, shape in SHAPES.items():
        if not (folder_of(step.folder / "models", size) / "config.json").exists():
            step.measured.pop(size, None)  # of another machine
        step.measure(size, partial(_make, step, size, TINY if step.tiny else shape))


def _make(step: Step, size: str, shape: dict[str, Any]) -> dict[str, Any]:
    started = time.perf_counter()
    folder = folder_of(step.folder / "models", size)
    shutil.rmtree(folder, ignore_errors=True)  # of a call that was cut off
    folder.mkdir(parents=True)
    parameters = make_model(folder, shape)
    return {"parameters": parameters, "seconds": time.perf_counter() - started}


if __name__ == "__main__":
    main()
