"""Which machines a run was given, and the command that starts a program on the others."""

from __future__ import annotations

import json

import pytest

from plat.errors import RunError
from plat.trainer import allocation
from plat.trainer.allocation import OTHER_MACHINES, command_on_others, machines, require_machines

VARIABLES = (OTHER_MACHINES, "SLURM_JOB_ID", "SLURM_JOB_NUM_NODES", "SLURM_CPUS_PER_TASK")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_without_a_scheduler_there_is_one_machine() -> None:
    assert machines() == 1
    require_machines(1)
    with pytest.raises(RunError, match="needs 2 machines, and there is 1") as error:
        require_machines(2)
    assert "--on slurm" in str(error.value.fix)


def test_in_a_job_of_slurm_srun_starts_the_program_on_the_nodes_after_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("SLURM_JOB_ID", "7"), ("SLURM_JOB_NUM_NODES", "3"), ("SLURM_CPUS_PER_TASK", "20")):
        monkeypatch.setenv(name, value)
    assert machines() == 3
    command = command_on_others(2, ["program", "argument"])
    assert command[0] == "srun" and command[-2:] == ["program", "argument"]
    assert {"--nodes=2", "--ntasks=2", "--relative=1", "--cpus-per-task=20", "--overlap"} <= set(command)
    assert "plat.processes.until_closed" in command
    with pytest.raises(RunError, match="needs 4 machines, and SLURM gave 3"):
        require_machines(4)


def test_another_scheduler_states_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OTHER_MACHINES, json.dumps({"machines": 2, "command": ["start", "group"]}))
    monkeypatch.setenv("SLURM_JOB_NUM_NODES", "1")  # a Ray cluster that somebody has started in a job
    assert machines() == 2
    expected = ["start", "group", "1", *allocation._UNTIL_CLOSED, "program"]
    assert command_on_others(1, ["program"]) == expected
