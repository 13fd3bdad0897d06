"""The GPUs of this machine, whole ones and shares of them for jobs, and its cores, which sweeps share."""

from __future__ import annotations

import contextlib
import math
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from plat.dispatch.gpu_setting import PARTS
from plat.dispatch.local.schedule import LocalJob
from plat.errors import SpecError
from plat.processes.locks import open_lock, take_lock
from plat.processes.own_process import usable_cores
from plat.trainer.allocation import machines
from plat.units import counted
from plat.words.usage import GPUS


def visible_gpus() -> list[str]:
    """Return the names that CUDA_VISIBLE_DEVICES may list here, one per device; [] without GPUs."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip() and name.strip() != "-1"]
    if shutil.which("nvidia-smi"):
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30, check=True).stdout.decode()
            return [str(i) for i, line in enumerate(x for x in listed.splitlines() if x.startswith("GPU"))]
    devices = [path.name for path in Path("/dev").glob("nvidia*") if re.fullmatch(r"nvidia\d+", path.name)]
    return [str(i) for i in range(len(devices))]


class SharedCores:
    """Count the CPU cores that sweeps of this user use on this machine, across all homes; `Devices` has one.

    Each running job locks one file per thread. The kernel releases a lock when its process ends, for any reason, so no
    cleanup is needed. No job is bound to a core. If the files cannot be used, every core counts as free.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.count = usable_cores()
        self._folder = folder or Path(tempfile.gettempdir()) / f"plat-cores-{os.getuid()}"
        self._held: dict[str, list[int]] = {}  # job -> open files
        self._is_noted = False
        self._usable = self._make_folder()

    def _make_folder(self) -> bool:
        """Make the folder; return True if it exists and belongs to this user."""
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            status = self._folder.lstat()
        except OSError:
            return False
        return self._folder.is_dir() and not self._folder.is_symlink() and status.st_uid == os.getuid()

    def free(self) -> int:
        """Return the number of cores that no sweep uses now."""
        handles = self._locked(self.count)
        for handle in handles:
            os.close(handle)
        return len(handles) if self._usable else self.count

    def take(self, job: str, threads: int) -> None:
        """Count this many cores as used by a job, or as many as are free."""
        self._held[job] = self._locked(threads)

    def give_back(self, job: str) -> None:
        for handle in self._held.pop(job, ()):
            os.close(handle)

    def has_room(self, notices: list[str]) -> bool:
        """Return True if a core is free, or if this sweep alone uses all cores.

        Otherwise other sweeps use some, and the result is False. The first False adds a text for the user to `notices`.
        """
        free = self.free()
        others = self.count - free - sum(map(len, self._held.values()))
        if free or not others:
            return True
        if not self._is_noted:
            self._is_noted = True
            text = f"other sweeps use {others} of {self.count} cores: this sweep uses what is left, at least one core"
            notices.append(f"{text} (--jobs N sets how many)")
        return False

    def _locked(self, most: int) -> list[int]:
        """Return open, locked files of at most this many free cores."""
        handles: list[int] = []
        for number in range(self.count if self._usable else 0):
            if len(handles) == most:
                break
            try:
                handle = open_lock(self._folder / str(number), 0o600)
            except OSError:
                continue
            is_ours = None
            with contextlib.suppress(OSError):
                is_ours = take_lock(handle)
            if is_ours:
                handles.append(handle)
            else:
                os.close(handle)
        return handles


class Devices:
    """Hand out the GPUs and cores of this machine; look for GPUs only when a job requests one.

    A job has whole GPUs of its own, or a share of one GPU. Nothing keeps a job to its share of the GPU's memory.
    """

    def __init__(self) -> None:
        self._free: dict[str, int] | None = None  # GPU -> its free parts of PARTS
        self.cores = SharedCores()

    def check(self, jobs: list[LocalJob]) -> None:
        """Raise SpecError if a job requests more machines than are allocated, or more GPUs than this machine has."""
        _check_machines(jobs)
        wanted = max((job.gpus for job in jobs), default=0)
        if wanted and self._free is None:
            self._free = dict.fromkeys(visible_gpus(), PARTS)
        count = len(self._free or ())
        if wanted > count:
            title = next(job.title for job in jobs if job.gpus > count)
            raise SpecError(
                f"{title} asks for {counted(wanted, 'GPU')}; this machine has {count or 'none'}",
                fix="choose device=cpu, another scale= or a smaller cluster.gpus=, or run it where there are GPUs",
            )

    def fits(self, job: LocalJob) -> bool:
        """Return True if the GPUs of the job, or its share of one, are free."""
        return len(self._choice(job)) == math.ceil(job.gpus)

    def take(self, job: LocalJob) -> dict[str, str]:
        """Give a job its cores and GPUs; return variables that hide all other GPUs and say how many it has.

        The caller makes sure that the job fits: it gets fewer GPUs if it does not.
        """
        self.cores.take(job.id, job.threads)
        job.devices = self._choice(job)
        self._add_free(job, -1)
        return {"CUDA_VISIBLE_DEVICES": ",".join(job.devices), GPUS: f"{job.gpus:g}"}

    def give_back(self, job: LocalJob) -> None:
        self.cores.give_back(job.id)
        self._add_free(job, 1)
        job.devices = ()

    def _choice(self, job: LocalJob) -> tuple[str, ...]:
        """Return the GPUs for a job: those with the least room that it fits into, so that others stay whole."""
        free = self._free or {}
        able = sorted((gpu for gpu in free if free[gpu] >= _parts(job)), key=free.__getitem__)
        return tuple(able[: math.ceil(job.gpus)])

    def _add_free(self, job: LocalJob, sign: int) -> None:
        for gpu in job.devices:
            assert self._free is not None
            self._free[gpu] += sign * _parts(job)


def _parts(job: LocalJob) -> int:
    """Return how many parts of each of its GPUs a job takes."""
    return round(min(job.gpus, 1) * PARTS)


def _check_machines(jobs: list[LocalJob]) -> None:
    """Raise SpecError for a job that needs more machines than are allocated; a cluster at RAY_ADDRESS has its own."""
    given = machines()
    for job in jobs:
        if job.nodes > given and not os.environ.get("RAY_ADDRESS"):
            raise SpecError(
                f"{job.title} asks for {job.nodes} nodes; at most {counted(given, 'machine')} can be used here",
                fix="use --on slurm or --on ray, or ask for one node",
            )
