"""Install the parts of the kit on a GPU machine without network, and run its steps; each call goes on where it ended.

    python3 benchmarks/gpu/run.py --part part-1                on the machine, in the tree; again with part-2, part-3
    python3 benchmarks/gpu/run.py --device cpu --tiny          the same on two cores, in less than ten minutes
    python3 benchmarks/gpu/run.py --experiment FILE --minutes 5   in the free slot: a sweep of this file

Steps run in the order below, each in a process with a time limit. A step writes what it has measured as it goes, so a
later call measures only what is missing. A step whose packages have not arrived waits; the others go on. OUT gets
`results.tar.gz` (a JSON file and a log for each step, of all calls) and `run.log` (what this call printed).

Ends with 0 if every step is done, with 3 if one failed, waits, was cut off or left something out, with 2 for bad input.
Standard library only, for Python 3.11 or later; the wheels are for one version of it.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path
from types import FrameType
from typing import Any

from machine import machine, versions
from parts import Store

HERE = Path(__file__).resolve().parent
TREE = HERE.parents[1]
# name -> limit in seconds on a GPU, limit with --tiny, the modules that the step imports beside those of the machine
STEPS: dict[str, tuple[int, int, tuple[str, ...]]] = {
    "models": (60, 60, ("plat", "transformers")),
    "embedded": (120, 300, ("plat", "mlflow", "pytest")),
    "rate": (110, 90, ("plat", "datasets")),
    "verl_grpo": (220, 270, ("verl", "ray", "transfer_queue")),
    "verl_ppo": (170, 180, ("verl", "ray", "transfer_queue")),
    "saving": (120, 90, ("plat", "datasets")),
    "free": (0, 0, ("plat", "mlflow")),
}
LEAST = 15.0  # seconds that must be left for a step to start
LOG_BYTES = 2_000_000  # of a step's log, its end, in the archive
INSTALLED = "installed.json"


class Call:
    """One call of this program: where its files are, how much time is left, what it has printed."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.until = time.monotonic() + given.seconds
        self.folder: Path = given.folder
        self.steps = self.folder / "steps"
        self.site = self.folder / "site"
        self.steps.mkdir(parents=True, exist_ok=True)
        given.out.mkdir(parents=True, exist_ok=True)
        self.log = (given.out / "run.log").open("w")
        self.lock = (self.folder / "lock").open("w")
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # two calls at once would take each other's files
        self.child: subprocess.Popen[bytes] | None = None

    def say(self, text: str) -> None:
        print(text, flush=True)
        print(text, file=self.log, flush=True)

    def left(self) -> float:
        return self.until - time.monotonic()

    def environment(self) -> dict[str, str]:
        """Return the variables of a step: the installed packages and the kit can be imported, nothing is fetched."""
        paths = [self.site, HERE, HERE.parent, *filter(None, [os.environ.get("PYTHONPATH")])]
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(self.folder / "datasets")}
        quiet = {"TOKENIZERS_PARALLELISM": "false", "PYTHONUNBUFFERED": "1"}
        return {**os.environ, **offline, **quiet, "PYTHONPATH": os.pathsep.join(map(str, paths))}

    def stop(self, number: int, frame: FrameType | None) -> None:
        """End the running step, keep what it has measured, and end with 128 + the signal's number."""
        self.end_child()
        self.say(f"stopped by {signal.Signals(number).name}: a further call goes on from here")
        self.pack_results()
        sys.exit(128 + number)

    def end_child(self) -> None:
        if self.child is not None and self.child.poll() is None:
            os.killpg(self.child.pid, signal.SIGKILL)
            self.child.wait()

    def pack_results(self) -> None:
        """Write `results.tar.gz` into the folder OUT: what every step has measured and logged so far."""
        target = self.given.out / "results.tar.gz"
        try:
            with tarfile.open(target.with_suffix(".part"), "w:gz") as archive:
                for path in sorted(self.steps.iterdir()):
                    archive.add(path, path.name)
            target.with_suffix(".part").replace(target)
        except OSError as error:
            print(f"{target} cannot be written: {error}; the results are in {self.steps}", flush=True)


def install(call: Call, store: Store) -> None:
    """Install the files that have arrived and are not installed yet, into a folder of their own."""
    python = ".".join(map(str, sys.version_info[:2]))
    if store.list["files"] and store.list["python"] != python:
        call.say(f"the wheels are for Python {store.list['python']}, this is {python}: none is installed; "
                 f"pack.py --python {python} makes others")  # fmt: skip
        return
    mark = call.folder / INSTALLED
    installed = json.loads(mark.read_text()) if mark.exists() else []
    new = [path for path in store.files() if path.name not in installed]
    if not new:
        return
    started, problem = time.monotonic(), pip_install(call, new)
    if problem:  # one bad file must not hold up the others
        found = {path: pip_install(call, [path]) for path in new}
        new = [path for path, problem in found.items() if not problem]
        for problem in filter(None, found.values()):
            call.say(problem)
    subprocess.run([sys.executable, "-m", "compileall", "-q", "-j", "0", str(call.site)], capture_output=True)
    mark.write_text(json.dumps([*installed, *(path.name for path in new)]))
    call.say(f"installed {len(new)} packages in {time.monotonic() - started:.0f} s")


def pip_install(call: Call, wheels: list[Path]) -> str:
    """Install wheels into the folder of the kit; return why that failed, "" if it did not."""
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile", "--upgrade"]
    pip += ["--disable-pip-version-check", "--no-warn-script-location", "--target", str(call.site)]
    done = subprocess.run([*pip, *map(str, wheels)], capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    return f"{wheels[0].name} cannot be installed: {lines[-1] if lines else 'pip failed'}" if done.returncode else ""


def lacking(call: Call, modules: tuple[str, ...]) -> list[str]:
    """Return those of the modules that a step could not import."""
    find = "import sys, importlib.util as u; print(*[name for name in sys.argv[1:] if u.find_spec(name) is None])"
    command = [sys.executable, "-c", find, *modules]
    return subprocess.run(command, capture_output=True, text=True, env=call.environment()).stdout.split()


def read(path: Path) -> dict[str, Any]:
    """Return what a step has written, or {} if that cannot be read."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def write(path: Path, record: dict[str, Any]) -> None:
    """Write a record, whole or not at all."""
    writing = path.with_suffix(".writing")
    writing.write_text(json.dumps(record, indent=1))
    writing.replace(path)


def run_step(call: Call, name: str) -> bool:
    """Run one step unless it is done; say how it ended, in one line. Return whether it is done."""
    path, given = call.steps / f"{name}.json", call.given
    before = read(path)
    if before.get("state") == "done":
        call.say(f"{name}: done before")
        return True
    limit = given.minutes * 60 if name == "free" else STEPS[name][given.tiny]
    if missing := lacking(call, STEPS[name][2]):
        call.say(f"{name}: waits for {', '.join(missing)}")
        return False
    if call.left() < LEAST:
        call.say(f"{name}: not started, {max(0, call.left()):.0f} s are left of {given.seconds}")
        return False
    command = [sys.executable, "-m", f"steps.{name}", "--device", given.device, "--folder", str(call.folder)]
    command += ["--tiny"] * given.tiny + ["--seconds", str(int(min(limit, call.left())))]
    command += ["--experiment", str(given.experiment)] if name == "free" else []
    started, seconds = time.monotonic(), min(limit, call.left())
    with (call.steps / f"{name}.log").open("ab") as log:
        call.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=call.environment(), cwd=TREE, process_group=0
        )
        try:
            code: int | None = call.child.wait(seconds)
        except subprocess.TimeoutExpired:
            call.end_child()
            code = None
    _cut_log(call.steps / f"{name}.log")
    state, reason = _state(code, read(path), seconds)
    spent = round(before.get("seconds", 0) + time.monotonic() - started, 1)
    write(path, {**read(path), "step": name, "state": state, "reason": reason, "seconds": spent})
    call.pack_results()
    call.say(f"{name}: {state} after {time.monotonic() - started:.0f} s" + (f": {reason}" if reason else ""))
    return state == "done"


def _state(code: int | None, record: dict[str, Any], seconds: float) -> tuple[str, str]:
    """Return the state of a step that has ended, and the reason on one line."""
    found = record.get("measured")
    pairs = found.items() if isinstance(found, dict) else ()
    measured = {name: value for name, value in pairs if isinstance(value, dict)}
    wrong = [f"{name}: {value['error']}" for name, value in measured.items() if "error" in value]
    skipped = [f"{name}: {value['skipped']}" for name, value in measured.items() if "skipped" in value]
    if code is None:
        return "cut off", f"{seconds:.0f} s were over; {len(measured)} measurements are kept"
    if code or wrong:
        return "failed", "; ".join(wrong) or f"exit code {code}: see its log"
    return ("left out", "; ".join(skipped)) if skipped else ("done", "")


def _cut_log(path: Path) -> None:
    """Keep the end of a long log."""
    if path.stat().st_size > LOG_BYTES:
        text = path.read_bytes()[-LOG_BYTES:]
        path.write_bytes(b"[the beginning is left out]\n" + text)


def take_earlier(archive: Path, call: Call) -> str:
    """Unpack the results of calls on a machine that is gone, unless this one has its own; return what is wrong.

    The models of that machine are gone, too, so its step `models` is not taken.
    """
    wanted = {f"{name}.{end}" for name in STEPS if name != "models" for end in ("json", "log")}
    try:
        with tarfile.open(archive) as packed:
            content = {}
            for member in packed.getmembers():
                if member.name in wanted | {"machine.json"} and (stream := packed.extractfile(member)) is not None:
                    content[member.name] = stream.read()
        of = json.loads(content.pop("machine.json"))
        if (of["device"], of["tiny"]) != (call.given.device, call.given.tiny):
            return f"{archive} has results of another device or size"
    except (OSError, EOFError, KeyError, TypeError, ValueError, tarfile.TarError) as error:
        return f"{archive} is no archive of results ({type(error).__name__}: {error})"
    for name, data in content.items():
        if not (call.steps / name).exists():
            (call.steps / name).write_bytes(data)
    return ""


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", type=Path, action="append", default=[], metavar="FOLDER", help="a part that has come")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--tiny", action="store_true", help="tiny models, to try the kit")
    parser.add_argument("--folder", type=Path, help="keeps everything between calls [build/gpu/work-DEVICE]")
    parser.add_argument("--out", type=Path, help="gets results.tar.gz and run.log [$OUT, or build/gpu/out]")
    parser.add_argument("--seconds", type=float, default=570, help="of this call, at most [%(default)s]")
    parser.add_argument("--only", choices=STEPS, action="append", metavar="STEP", help=f"one of {', '.join(STEPS)}")
    parser.add_argument("--experiment", type=Path, metavar="FILE", help="an experiment file for the free slot")
    parser.add_argument("--minutes", type=float, default=2, help="of the free slot [%(default)s]")
    parser.add_argument("--earlier", type=Path, metavar="ARCHIVE", help="results.tar.gz of a machine that is gone")
    given = parser.parse_args()
    given.folder = (given.folder or TREE / "build" / "gpu" / f"work-{given.device}{'-tiny' * given.tiny}").resolve()
    given.out = (given.out or Path(os.environ.get("OUT") or TREE / "build" / "gpu" / "out")).resolve()
    for path in (*given.part, given.experiment, given.earlier):
        if path is not None and not path.exists():
            parser.error(f"{path} does not exist")
    if given.experiment is not None:
        given.experiment = given.experiment.resolve()
        if not given.experiment.is_file():
            parser.error(f"--experiment: {given.experiment} is no file")
    elif "free" in (given.only or ()):
        parser.error("--only free: name a file with --experiment")
    return given


def main() -> int:
    given = arguments()
    try:
        call = Call(given)
    except BlockingIOError:
        print(f"another call uses {given.folder}: wait for its end, or name another --folder")
        return 2
    except OSError as error:
        print(f"cannot write: {error}; name other places with --folder and --out")
        return 2
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, call.stop)
    try:
        return all_steps(call)
    except OSError as error:  # a full disk, most likely
        call.end_child()
        print(f"the call ends early: {error}; what was measured is in {call.steps}")
        call.pack_results()
        return 3


def all_steps(call: Call) -> int:
    """Take what has come, install it, and run the steps; return the exit code."""
    given, facts = call.given, machine(call.given.device)
    call.say(", ".join(f"{name} {value}" for name, value in facts.items()))
    if "problem" in facts:
        call.say("there is no GPU to run on: --device cpu --tiny tries the kit")
        return 2
    known = read(call.steps / "machine.json")
    if known.get("device", given.device) != given.device or known.get("tiny", given.tiny) != given.tiny:
        call.say(f"{call.folder} has results of another device or size: name another --folder")
        return 2
    if given.earlier is not None and (problem := take_earlier(given.earlier, call)):
        call.say(problem)
        return 2
    store = Store(call.folder / "parts")
    for part in given.part:
        for problem in store.take(part):
            call.say(problem)
    install(call, store)
    facts |= {"packages": versions(call.environment()), "tiny": given.tiny, "command": " ".join(sys.argv)}
    write(call.steps / "machine.json", facts)
    call.say(f"packages: {facts['packages']}")
    for problem in store.problems:
        call.say(problem)
    if missing := store.missing():
        call.say(f"part {', '.join(map(str, missing))} of {store.list['parts']} has not come yet")
    wanted = [name for name in given.only or STEPS if name != "free" or given.experiment is not None]
    done = [run_step(call, name) for name in wanted]
    call.pack_results()
    call.say(f"{sum(done)} of {len(done)} steps are done; results: {given.out / 'results.tar.gz'}")
    return 0 if all(done) else 3


if __name__ == "__main__":
    sys.exit(main())
