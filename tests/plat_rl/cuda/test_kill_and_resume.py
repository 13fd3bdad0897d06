"""A run on the device that is killed and started again has the bits of an undisturbed one.

Two undisturbed runs tell the reason of a difference: if these two differ already, the device does not give the same
bits twice. torch warns of each operation that has no deterministic form; the runs' logs have the warnings.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from plat_processes import finish, kill_all, started, wait_until

from plat.store.disk.durable import read_json
from plat.store.home import Home
from plat.store.run_directory.history import run_history
from plat.store.run_directory.paths import RunPaths

pytestmark = [pytest.mark.cuda, pytest.mark.slow]

SECONDS = 60  # that a run may take; it takes about five
LONG = (
    *("scale=smoke", "task=frozenlake", "train.iterations=6", "train.checkpoint_every=2", "train.prompts=4"),
    *("eval.every=3", "mi.every=3", "mi.probe=16", "task.turns=2", "+task.env.max_solution=2", "task.reward_noise=0.3"),
)
RUNS = {
    "ppo, float32": (
        *("qwen2.5-like", "algorithm=ppo", "algorithm.kl_coef=0.01", "filter=top_p", "gradient.times=2"),
        *("gradient.prompts=4", "gradient.group_size=4", "gradient.buckets=2", "gradient.halves=true"),
    ),
    "grpo, bfloat16": ("llama-like", "algorithm=grpo", "dtype=bfloat16", "train.micro_batch=3"),
}
NOT_DETERMINISTIC = (
    re.compile(r"(\w+) does not have a deterministic implementation"),
    re.compile(r"([A-Z]\w*(?: \w+)*) defaults to a non-deterministic algorithm"),
    re.compile(r"this operation is not deterministic because it uses (\w+)"),
)
History = dict[tuple[str, int], Any]


def only_run(home: Path) -> RunPaths:
    (run,) = Home(home).all_runs()
    return run


def history(home: Path) -> tuple[History, History]:
    """Metrics and tables of the run, without times and the memory of its process, which no run repeats."""
    metrics, tables = run_history(only_run(home))
    numbers = {(m.key, m.step): m.value for m in metrics if not m.key.startswith(("time/", "mem/"))}
    return numbers, {(table.name, table.step): table.data for table in tables}


def bits(numbers: History) -> History:
    return {key: float(value).hex() for key, value in numbers.items()}


def weights(home: Path) -> bytes:
    (file,) = only_run(home).root.glob("attempts/*/checkpoints/step-000006/tensors.safetensors")
    return file.read_bytes()


def difference(one: Path, other: Path) -> tuple[str, float]:
    """Where two runs differ ("" for nowhere), and the largest relative difference of their metrics."""
    (mine, my_tables), (yours, your_tables) = history(one), history(other)
    if mine.keys() != yours.keys():
        return f"one run alone has {sorted(mine.keys() ^ yours.keys())[:5]}", math.inf
    differing = [key for key, value in bits(mine).items() if value != bits(yours)[key]]
    apart = [abs(mine[key] - yours[key]) / max(abs(mine[key]), abs(yours[key]), 1e-12) for key in differing]
    largest = max((math.inf if math.isnan(value) else value for value in apart), default=0.0)
    if differing:
        first = min(differing, key=lambda key: key[1])
        return f"{len(differing)} metrics, first {first[0]} of step {first[1]}", largest
    if my_tables != your_tables:
        return "tables", 0.0
    return ("" if weights(one) == weights(other) else "the weights of the last checkpoint"), 0.0


def warned_of(home: Path) -> list[str]:
    """The operations of which torch said that they are not deterministic."""
    logs = [log.read_text(errors="replace") for log in only_run(home).root.glob("attempts/*/log.txt")]
    return sorted({name for log in logs for pattern in NOT_DETERMINISTIC for name in pattern.findall(log)})


def has_checkpoints(home: Path, count: int) -> bool:
    return len(list(home.glob("runs/*/*/attempts/001/checkpoints/step-*/meta.json"))) >= count


@pytest.mark.parametrize("options", RUNS.values(), ids=RUNS)
def test_a_killed_run_goes_on_with_the_same_bits(
    options: tuple[str, ...],
    device_of_processes: str,
    checkpoints: dict[str, Path],
    tmp_path: Path,
    record_property: Callable[[str, Any], None],
) -> None:
    once, twice, killed = homes = [tmp_path / name for name in ("once", "twice", "killed")]
    name, *others = options
    overrides = (*LONG, *others, f"model.path={checkpoints[name]}", f"device={device_of_processes}")
    with ExitStack() as stack:
        running = []
        for home in homes:
            command = ("run", *overrides, "--home", str(home))
            log = tmp_path / f"{home.name}.txt"
            running.append((stack.enter_context(started(str(home), log, *command)), log))
        wait_until(lambda: has_checkpoints(killed, 2) or running[2][0].poll() is not None, SECONDS, "two checkpoints")
        kill_all(str(killed))
        assert running[2][0].wait(SECONDS) != 0, "it ended before it was killed"
        again = tmp_path / "again.txt"
        command = ("run", *overrides, "--home", str(killed))
        running[2] = (stack.enter_context(started(str(killed), again, *command)), again)
        finish(running, SECONDS)

    resumed = read_json(only_run(killed).root / "attempts" / "002" / "attempt.json") or {}
    record_property("resumed from step", resumed.get("restored_step"))
    assert (resumed.get("restored_step") or 0) >= 2
    named = sorted({operation for home in homes for operation in warned_of(home)})
    record_property("operations without a deterministic form", ", ".join(named) or "none")
    found = {"undisturbed twice": difference(once, twice), "killed and resumed": difference(once, killed)}
    for what, (where, largest) in found.items():
        record_property(f"{what}: difference", where or "none")
        record_property(f"{what}: largest relative difference", largest)
    if not any(where for where, _ in found.values()):
        return
    said = "; ".join(f"{what}: {where or 'no difference'} ({size:.2g})" for what, (where, size) in found.items())
    if named:
        pytest.xfail(f"{said}; torch has no deterministic form of {', '.join(named)}")
    pytest.fail(f"{said}; torch named no operation")


def test_the_warnings_of_torch_are_read() -> None:
    texts = {
        "1: UserWarning: cumsum_cuda_kernel does not have a deterministic implementation, but": "cumsum_cuda_kernel",
        "8: UserWarning: Memory Efficient attention defaults to a non-deterministic algorithm.": (
            "Memory Efficient attention"
        ),
        "but this operation is not deterministic because it uses CuBLAS and you have CUDA >= 10.2.": "CuBLAS",
    }
    for text, name in texts.items():
        assert [found for pattern in NOT_DETERMINISTIC for found in pattern.findall(text)] == [name]
