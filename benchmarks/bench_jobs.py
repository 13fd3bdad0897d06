"""Jobs that do nothing: plat beside submitit, Hydra's submitit launcher and Ray Tune.

    python benchmarks/bench_jobs.py [--jobs 200] [--submitted 1000]

Three things are measured, in seconds of whole commands, each in a new folder:

jobs done   200 jobs. plat does them with everything that it always does: validated configs, run directories, leases,
            event files, results, the import into MLflow, and the report. The others call a function that returns 1.0
            (submitit and Hydra with their local executors, Ray Tune with a function as its trainable and without its
            loggers). plat and Ray Tune use as many processes at once as there are cores. submitit's local executor
            starts two processes for each job at once, so it gets its jobs in batches of 50, which memory can hold.
done again  the same command once more. plat sees that nothing is to be done. The others do not know what is done and
            do it all again, so what they take is what they took the first time.
submitted   1,000 jobs, from the start of the command until all are handed over. plat hands them to SLURM, which a
            script plays that accepts at once, and the command ends. The others are stopped where they have handed
            over: submitit's local executor has started all jobs (a tenth of them, and the time times ten); Hydra's
            launcher, with its SLURM executor, has called the same script; Ray Tune has made every trial of its grid.
            submitit with its SLURM executor ends by itself.

What is not installed (`make bench` installs it in .venv/bench) is left out, and that is said.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

JOBS = Path(__file__).parent / "jobs"
BESIDE = Path(sys.prefix) / "bench"  # where `make bench` installs what plat is compared with
EXPERIMENT = """\
title: Jobs that do nothing
base: {{trainer: "noop_trainer:SPEC"}}
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
OUTPUT = "output.txt"  # of a command, in its folder
OTHER_COMMANDS = ("squeue", "sacct", "scancel", "sinfo", "srun")  # asked now and then: they answer nothing


@dataclass(frozen=True)
class Competitor:
    """Somebody else's way to do many jobs. `run` and `submit` give seconds for a new folder and a number of jobs."""

    name: str
    module: str  # without which it is not installed
    run: Callable[[Path, int], float] | None = None
    submit: Callable[[Path, int], float] | None = None


def python(name: str, *arguments: object) -> list[str]:
    """The command of a script in benchmarks/jobs, which alone sees what is installed beside plat."""
    return ["env", f"PYTHONPATH={BESIDE}", sys.executable, str(JOBS / name), *map(str, arguments)]


def environment(folder: Path) -> dict[str, str]:
    """With the trainer importable, and the SLURM that accepts everything first on the PATH."""
    dropped = ("PLAT_HOME", "MLFLOW_TRACKING_URI", "PYTHONDONTWRITEBYTECODE")  # the last: modules are compiled once
    return {
        **{name: value for name, value in os.environ.items() if name not in dropped},
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
    """Of a whole command, in a folder. CalledProcessError, with what it has printed, where it fails."""
    process, started = start(command, folder)
    code = process.wait()
    taken = time.time() - started
    if code:
        raise subprocess.CalledProcessError(code, command, (folder / OUTPUT).read_text()[-2000:])
    return taken


def seconds_until_accepted(command: list[str], folder: Path, *, end_it: bool = False) -> float:
    """From the start of a command to the time in the file that $ACCEPTED names; with `end_it`, it is ended there."""
    process, started = start(command, folder)
    accepted = folder / "accepted.txt"
    while process.poll() is None and not (end_it and accepted.exists()):
        time.sleep(0.01)
    if process.poll() is None:
        process.kill()
    process.wait()
    if not accepted.exists():
        raise subprocess.CalledProcessError(process.returncode, command, (folder / OUTPUT).read_text()[-2000:])
    return float(accepted.read_text().split()[0]) - started


def start(command: list[str], folder: Path) -> tuple[subprocess.Popen[bytes], float]:
    """A command in a folder, and the time at which it was started."""
    make_slurm(folder)
    os.sync()  # what earlier commands have written is on the disk before the clock starts
    with open(folder / OUTPUT, "wb") as output:
        started = time.time()
        return subprocess.Popen(command, cwd=folder, env=environment(folder), stdout=output, stderr=output), started


def sweep(folder: Path, jobs: int, *options: str) -> list[str]:
    folder.mkdir(exist_ok=True)
    (folder / "noop.yaml").write_text(EXPERIMENT.format(jobs=jobs))
    return [sys.executable, "-m", "plat", "sweep", "noop.yaml", "--home", str(folder / "home"), *options]


def submitit_does(folder: Path, jobs: int) -> float:
    return seconds(python("with_submitit.py", "local", folder / "jobs", jobs), folder)


def submitit_starts(folder: Path, jobs: int) -> float:
    tenth = max(1, jobs // 10)
    return jobs / tenth * seconds_until_accepted(python("with_submitit.py", "start", folder / "jobs", tenth), folder)


def submitit_submits(folder: Path, jobs: int) -> float:
    return seconds(python("with_submitit.py", "slurm", folder / "jobs", jobs), folder)


def hydra(folder: Path, jobs: int, launcher: str, *options: str) -> list[str]:
    choices = [f"hydra/launcher={launcher}", f"seed=range(0,{jobs})", f"hydra.sweep.dir={folder / 'jobs'}"]
    return python("with_hydra.py", "--multirun", *choices, *options)


def hydra_does(folder: Path, jobs: int) -> float:
    return seconds(hydra(folder, jobs, "submitit_local", "hydra.sweeper.max_batch_size=50"), folder)


def hydra_submits(folder: Path, jobs: int) -> float:
    return seconds_until_accepted(hydra(folder, jobs, "submitit_slurm"), folder, end_it=True)


def ray_tune(mode: str, folder: Path, jobs: int) -> list[str]:
    return python("with_ray_tune.py", mode, folder / "jobs", jobs, len(os.sched_getaffinity(0)))


def ray_does(folder: Path, jobs: int) -> float:
    return seconds(ray_tune("run", folder, jobs), folder)


def ray_expands(folder: Path, jobs: int) -> float:
    return seconds_until_accepted(ray_tune("expand", folder, jobs), folder)


COMPETITORS = (
    Competitor("submitit, local executor", "submitit", submitit_does, submitit_starts),
    Competitor("Hydra's submitit launcher, local executor", "hydra_plugins", run=hydra_does),
    Competitor("Hydra's submitit launcher, SLURM", "hydra_plugins", submit=hydra_submits),
    Competitor("Ray Tune", "ray", ray_does, ray_expands),
    Competitor("submitit, SLURM", "submitit", submit=submitit_submits),
)


def installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None or (BESIDE / module).is_dir()


def report(name: str, value: float, unit: str, against: str, reference: float) -> None:
    """One figure beside that of a competitor, in the same unit."""
    shown = {"name": name, "value": round(value, 4), "unit": unit, "against": f"{against}: {reference:.3g} {unit}"}
    print("BENCH " + json.dumps({**shown, "ratio": reference / value, "ok": reference > value}), flush=True)


def measured(what: str, measure: Callable[[Path, int], float], folder: Path, jobs: int) -> float | None:
    """Seconds; None, and a line that says why, where a competitor's command fails."""
    try:
        taken = measure(folder, jobs)
    except subprocess.CalledProcessError as error:
        print(f"{what} failed, its ratios are left out: {error.output.strip()[-500:]}", flush=True)
        return None
    print(f"{what}, {jobs:,} jobs: {taken:.1f} s", flush=True)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=200)
    parser.add_argument("--submitted", type=int, default=1000)
    chosen = parser.parse_args()
    present = [competitor for competitor in COMPETITORS if installed(competitor.module)]
    for competitor in COMPETITORS:
        if competitor not in present:
            print(f"not installed: {competitor.name}, its ratios are left out")
    with tempfile.TemporaryDirectory() as scratch:
        compare_doing(Path(scratch), present, chosen.jobs)
        compare_submitting(Path(scratch), present, chosen.submitted)


def compare_doing(scratch: Path, competitors: list[Competitor], jobs: int) -> None:
    ours = scratch / "plat-run"
    first = seconds(sweep(ours, jobs), ours)
    again = seconds(sweep(ours, jobs), ours)
    print(f"plat, {jobs:,} jobs: {first:.1f} s, and again: {again:.2f} s", flush=True)
    theirs: Mapping[str, float | None] = {
        competitor.name: measured(competitor.name, competitor.run, scratch / f"run-{number}", jobs)
        for number, competitor in enumerate(competitors)
        if competitor.run is not None
    }
    for name, taken in theirs.items():
        if taken is not None:
            report(f"{jobs:,} jobs that do nothing, each", 1e3 * first / jobs, "ms", name, 1e3 * taken / jobs)
    for name, taken in theirs.items():
        if taken is not None:
            report(f"{jobs:,} jobs that are done, again", again, "s", f"{name}, all again", taken)


def compare_submitting(scratch: Path, competitors: list[Competitor], jobs: int) -> None:
    ours = scratch / "plat-submit"
    taken = seconds(sweep(ours, jobs, "--on", "slurm"), ours)
    print(f"plat, {jobs:,} jobs handed to SLURM: {taken:.1f} s", flush=True)
    for number, competitor in enumerate(competitors):
        if competitor.submit is None:
            continue
        theirs = measured(competitor.name, competitor.submit, scratch / f"submit-{number}", jobs)
        if theirs is not None:
            report(f"{jobs:,} jobs expanded and submitted", taken, "s", competitor.name, theirs)


if __name__ == "__main__":
    main()
