"""Time jobs that do nothing: plat beside submitit, Hydra's submitit launcher and Ray Tune.

    python benchmarks/bench_jobs.py [--jobs 200] [--submitted 1000]

Times are seconds of whole commands, each in a new folder: until all jobs are done, until the same command has ended
again, and until all jobs are submitted. docs/benchmarks.md says what each tool does in that time. SLURM is a script
that accepts at once. Tools that are not installed are left out with a message (`make bench` installs them in
.venv/bench).
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from measuring import clean_environment, figure, options, plat

JOBS = Path(__file__).parent / "jobs"
BESIDE = Path(sys.prefix) / "bench"  # `make bench` installs the other tools there
EXPERIMENT = """\
title: Jobs that do nothing
base: {{trainer: "noop_trainer:Noop"}}
matrix: {{seed: range({jobs})}}
"""
SBATCH = """\
#!/bin/sh
date +%s.%N >> "$ACCEPTED"
[ "$1" = --parsable ] && echo 1 || echo "Submitted batch job 1"
"""
SCONTROL = """\
#!/bin/sh
echo "ClusterName = none"
echo "MaxArraySize = 100001"
"""
OUTPUT = "output.txt"  # a command's output, in its folder
OTHER_COMMANDS = ("squeue", "sacct", "scancel", "sinfo", "srun")  # called now and then; the fakes print nothing


def python(name: str, *arguments: object) -> list[str]:
    """Return the command of a script in benchmarks/jobs, with the packages installed beside plat on its path."""
    return ["env", f"PYTHONPATH={BESIDE}", sys.executable, str(JOBS / name), *map(str, arguments)]


def environment(folder: Path) -> dict[str, str]:
    """Return the environment of a command: the trainer is importable, and the fake SLURM is first on the PATH."""
    return {
        **clean_environment(),
        "PYTHONPATH": str(JOBS),
        "PLAT_ALLOW_IMPORT": "1",
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "ACCEPTED": str(folder / "accepted.txt"),
    }


def make_slurm(folder: Path) -> None:
    programs = {"sbatch": SBATCH, "scontrol": SCONTROL, **dict.fromkeys(OTHER_COMMANDS, "#!/bin/sh\n")}
    (folder / "bin").mkdir(parents=True, exist_ok=True)
    for name, text in programs.items():
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)


def seconds(command: list[str], folder: Path) -> float:
    """Return the seconds of a whole command in a folder. Raises CalledProcessError with its output if it fails."""
    process, started = start(command, folder)
    code = process.wait()
    taken = time.time() - started
    if code:
        raise failed(process, folder)
    return taken


def seconds_until_accepted(command: list[str], folder: Path, *, end_it: bool = False) -> float:
    """Return the seconds from the start of a command to the time in the file $ACCEPTED; `end_it` kills it then.

    Raises CalledProcessError with the output if the command ends without that file.
    """
    process, started = start(command, folder)
    accepted = folder / "accepted.txt"
    while process.poll() is None and not (end_it and accepted.exists()):
        time.sleep(0.01)
    process.kill()  # does nothing if it has ended
    process.wait()
    if not accepted.exists():
        raise failed(process, folder)
    return float(accepted.read_text().split()[0]) - started


def failed(process: subprocess.Popen[bytes], folder: Path) -> subprocess.CalledProcessError:
    return subprocess.CalledProcessError(process.returncode, process.args, (folder / OUTPUT).read_text()[-2000:])


def start(command: list[str], folder: Path) -> tuple[subprocess.Popen[bytes], float]:
    """Start a command in a folder; return it and its start time."""
    make_slurm(folder)
    os.sync()  # flush the writes of earlier commands before the clock starts
    with open(folder / OUTPUT, "wb") as output:
        started = time.time()
        return subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=output, stderr=output), started


@dataclass(frozen=True)
class Competitor:
    """Another tool for many jobs, installed if `module` can be found.

    command  (a new folder, a number of jobs) -> the command
    clock    (command, folder) -> seconds
    share    of so many jobs one is measured, and the time scaled up
    """

    name: str
    module: str
    command: Callable[[Path, int], list[str]]
    clock: Callable[[list[str], Path], float] = seconds
    share: int = 1


def sweep(folder: Path, jobs: int, *words: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / "noop.yaml").write_text(EXPERIMENT.format(jobs=jobs))
    return plat("sweep", "noop.yaml", *words, home=folder / "home")


def submitit(mode: str, folder: Path, jobs: int) -> list[str]:
    return python("with_submitit.py", mode, folder / "jobs", jobs)


def hydra(launcher: str, folder: Path, jobs: int) -> list[str]:
    choices = [f"hydra/launcher={launcher}", f"seed=range(0,{jobs})", f"hydra.sweep.dir={folder / 'jobs'}"]
    batches = ["hydra.sweeper.max_batch_size=50"] if launcher == "submitit_local" else []
    return python("with_hydra.py", "--multirun", *choices, *batches)


def ray_tune(mode: str, folder: Path, jobs: int) -> list[str]:
    return python("with_ray_tune.py", mode, folder / "jobs", jobs, len(os.sched_getaffinity(0)))


DOING = (
    Competitor("submitit, local executor", "submitit", partial(submitit, "local")),
    Competitor("Hydra's submitit launcher, local executor", "hydra_plugins", partial(hydra, "submitit_local")),
    Competitor("Ray Tune", "ray", partial(ray_tune, "run")),
)
ended = partial(seconds_until_accepted, end_it=True)
SUBMITTING = (
    Competitor("submitit, local executor", "submitit", partial(submitit, "start"), seconds_until_accepted, share=10),
    Competitor("Hydra's submitit launcher, SLURM", "hydra_plugins", partial(hydra, "submitit_slurm"), ended),
    Competitor("Ray Tune", "ray", partial(ray_tune, "expand"), seconds_until_accepted),
    Competitor("submitit, SLURM", "submitit", partial(submitit, "slurm")),
)


def measured(competitors: tuple[Competitor, ...], scratch: Path, jobs: int) -> Iterator[tuple[str, float]]:
    """Yield name and seconds of each competitor; print a message for one that is not installed or fails."""
    for number, one in enumerate(competitors):
        if importlib.util.find_spec(one.module) is None and not (BESIDE / one.module).is_dir():
            print(f"not installed: {one.name}, its ratios are left out", flush=True)
            continue
        folder, count = scratch / f"theirs-{number}", max(1, jobs // one.share)
        try:
            taken = one.clock(one.command(folder, count), folder) * jobs / count
        except subprocess.CalledProcessError as error:
            print(f"{one.name} failed, its ratios are left out: {error.output.strip()[-500:]}", flush=True)
            continue
        print(f"{one.name}, {jobs:,} jobs: {taken:.1f} s", flush=True)
        yield one.name, taken


def report(name: str, value: float, unit: str, against: str, reference: float) -> None:
    ratio = reference / value
    figure(name, value, unit, f"{against}: {reference:.3g} {unit}", ratio=ratio, ok=ratio > 1)


def compare_doing(scratch: Path, jobs: int) -> None:
    ours = scratch / "plat"
    first = seconds(sweep(ours, jobs), ours)
    again = seconds(sweep(ours, jobs), ours)
    print(f"plat, {jobs:,} jobs: {first:.1f} s, and again: {again:.2f} s", flush=True)
    theirs = list(measured(DOING, scratch, jobs))
    for name, taken in theirs:
        report(f"{jobs:,} jobs that do nothing, each", 1e3 * first / jobs, "ms", name, 1e3 * taken / jobs)
    for name, taken in theirs:
        report(f"{jobs:,} jobs that are done, again", again, "s", f"{name}, all again", taken)


def compare_submitting(scratch: Path, jobs: int) -> None:
    ours = scratch / "plat"
    taken = seconds(sweep(ours, jobs, "--on", "slurm"), ours)
    print(f"plat, {jobs:,} jobs handed to SLURM: {taken:.1f} s", flush=True)
    for name, theirs in measured(SUBMITTING, scratch, jobs):
        report(f"{jobs:,} jobs expanded and submitted", taken, "s", name, theirs)


def main() -> None:
    given = options(__doc__, jobs=200, submitted=1000).parse_args()
    for compare, jobs in ((compare_doing, given.jobs), (compare_submitting, given.submitted)):
        with tempfile.TemporaryDirectory() as scratch:
            compare(Path(scratch), jobs)


if __name__ == "__main__":
    main()
