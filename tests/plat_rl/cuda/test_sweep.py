"""A sweep whose runs share the device: all finish, each says where it computed, and nothing is left on the card."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from plat_processes import finish, processes_of, started

from plat.store.disk.durable import read_json
from plat.store.home import Home

pytestmark = [pytest.mark.cuda, pytest.mark.slow]

SECONDS = 80
LEFT = 64  # MiB; a driver may keep some for itself
SWEEP = """
title: Four runs on one device
base: {scale: smoke, task: frozenlake, algorithm: grpo, train.iterations: 2, model.path: CHECKPOINT, device: DEVICE}
matrix:
  filter: [none, top_p]
  seed: [0, 1]
"""
MEMORY = "import torch; free, total = torch.cuda.mem_get_info(); print((total - free) // 2**20)"


def used_memory() -> int:
    """MiB in use on the first GPU, by all processes of the machine."""
    if shutil.which("nvidia-smi"):
        command = ["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"]
    else:
        command = [sys.executable, "-c", MEMORY]  # its own context counts each time
    answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    return int(answer.stdout.split()[0])


def test_a_sweep_shares_the_device_and_leaves_nothing(
    device_of_processes: str,
    checkpoints: dict[str, Path],
    tmp_path: Path,
    record_property: Callable[[str, Any], None],
) -> None:
    has_gpu = device_of_processes == "cuda"
    file, home, log = tmp_path / "four.yaml", tmp_path / "home", tmp_path / "log.txt"
    file.write_text(SWEEP.replace("CHECKPOINT", str(checkpoints["llama-like"])).replace("DEVICE", device_of_processes))
    before = used_memory() if has_gpu else 0
    start = time.monotonic()
    command = ("sweep", str(file), "--home", str(home), "--jobs", "4", *(["cluster.gpus=0.25"] if has_gpu else []))
    with started(str(home), log, *command) as process:
        finish([(process, log)], SECONDS)
        record_property("seconds", round(time.monotonic() - start, 1))
        left = processes_of(str(home))
        assert not left, f"still there: {left}"
    runs = Home(home).all_runs()
    assert len(runs) == 4
    for run in runs:
        (attempt,) = run.attempts()
        outcome, facts = read_json(attempt.outcome) or {}, read_json(attempt.meta) or {}
        assert outcome["outcome"] == "finished", outcome
        assert bool(facts["gpus"]) == has_gpu
        used = outcome["usage"]
        assert used["cpu_seconds"] > 0 and used["gpu_seconds"] == pytest.approx(
            0.25 * has_gpu * used["seconds"], abs=0.01
        )
        if has_gpu:
            record_property(f"usage of {run.id}", str(used))
            record_property(f"GPU of {run.id}", f"{facts['gpus']}: {outcome['gpu']}")
    if has_gpu:
        after = used_memory()
        record_property("MiB before and after", f"{before}, {after}")
        assert after - before <= LEFT
