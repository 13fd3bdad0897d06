"""The GPUs of this machine, each of which belongs to one job at a time, and its cores, which sweeps share."""

from __future__ import annotations

import os

from plat.dispatch.local import machine
from plat.dispatch.local.jobs import LocalJob
from plat.dispatch.local.shared_cores import SharedCores
from plat.errors import SpecError
from plat.trainer.allocation import machines
from plat.units import counted


class Devices:
    """Hands out the GPUs and cores of this machine; looks for GPUs only when a job asks for one."""

    def __init__(self) -> None:
        self._free: list[str] | None = None
        self._count = 0
        self.cores = SharedCores()

    @property
    def free(self) -> int:
        return len(self._free or ())

    def check(self, jobs: list[LocalJob]) -> None:
        """SpecError when a job asks for more machines than we were given, or for more GPUs than this one has."""
        _check_machines(jobs)
        wanted = max((job.gpus for job in jobs), default=0)
        if wanted and self._free is None:
            self._free = machine.gpus()
            self._count = len(self._free)
        if wanted > self._count:
            title = next(job.title for job in jobs if job.gpus > self._count)
            raise SpecError(
                f"{title} asks for {counted(wanted, 'GPU')}; this machine has {self._count or 'none'}",
                mend="choose device=cpu or another scale=, or run it where there are GPUs",
            )

    def take(self, job: LocalJob) -> dict[str, str]:
        """Give a job its GPUs; the environment in which it sees these alone, and none when it asked for none."""
        self.cores.take(job.id, job.threads)
        if self._free is not None:
            job.devices = tuple(self._free[: job.gpus])
            del self._free[: job.gpus]
        return {"CUDA_VISIBLE_DEVICES": ",".join(job.devices)}

    def give_back(self, job: LocalJob) -> None:
        self.cores.give_back(job.id)
        if self._free is not None:
            self._free += job.devices
        job.devices = ()


def _check_machines(jobs: list[LocalJob]) -> None:
    """A run that joins the Ray cluster at RAY_ADDRESS finds its nodes there."""
    given = machines()
    for job in jobs:
        if job.nodes > given and not os.environ.get("RAY_ADDRESS"):
            raise SpecError(
                f"{job.title} asks for {job.nodes} nodes; here {'is one machine' if given == 1 else f'are {given}'}",
                mend="use --on slurm or --on ray, or choose verl.nodes=1",
            )
