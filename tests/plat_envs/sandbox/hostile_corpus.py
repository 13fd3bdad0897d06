"""Read the tables of programs beside this file, and grade hostile ones where secrets lie about and sockets listen.

As a script it is a grader of its own: `python hostile_corpus.py each|together LEVEL SECRET`, with the keys of programs
as JSON on stdin. It prints what went wrong as JSON. So it can run as another user.
"""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from plat_envs.sandbox.program import Call, Grade, Limits, Program, Test
from plat_envs.sandbox.sandbox import Sandbox

HERE = Path(__file__).resolve().parent
LIMITS = Limits(cpu_seconds=1, wall_seconds=2.5, memory_bytes=512 << 20, output_bytes=1 << 20)
CLAIM = b"it worked"
LONG = 1.0  # seconds by which a program may delay the next one


@dataclass(frozen=True)
class Entry:
    """A program of a table: its group (`1_verdict`), its kind, its name, and whether tests call it."""

    group: str
    kind: int
    name: str
    source: str
    function: bool

    @property
    def key(self) -> str:
        return f"{self.kind} {self.name}"


def hostile() -> dict[str, Entry]:
    """The hostile programs by their keys."""
    entries = {}
    for path in sorted((HERE / "hostile").glob("*.txt")):
        for head, body in sections(path):
            kind, _, name = head.partition(" ")
            entry = Entry(path.stem, int(kind), name.removesuffix(" [call]"), body, name.endswith(" [call]"))
            assert entry.key not in entries, entry.key
            entries[entry.key] = entry
    return entries


def honest() -> dict[str, tuple[Program, Test | Call]]:
    """The honest programs with their tests."""
    found: dict[str, tuple[Program, Test | Call]] = {}
    for head, body in sections(HERE / "honest.txt"):
        source, given, expected = re.split(r"^--- (?:in\n|out\n?)", body, flags=re.M)
        if repeated := re.fullmatch(r" (.)\1* (\d+)\n", expected):
            expected = repeated[1] * int(repeated[2])
        if head.endswith(" [call]"):
            found[head] = Program(source, "f"), Call(json.loads(given), json.loads(expected))
        else:
            found[head] = Program(source), Test(given, expected)
    return found


def sections(path: Path) -> Iterator[tuple[str, str]]:
    """Heads and bodies of the sections of a table."""
    for section in re.split(r"^=== ", path.read_text(encoding="utf-8"), flags=re.M)[1:]:
        head, _, body = section.partition("\n")
        yield head, body


class Surroundings:
    """What a hostile program could find: secrets, sockets that listen, and a process that grades."""

    def __init__(self, folder: Path, secret: str, stack: ExitStack) -> None:
        self.folder, self.secret, self.mark = folder, secret, f"plat-hostile-{os.getpid()}"
        home = folder / "home"
        for path in (
            folder / "secret",
            home / ".ssh" / "id_rsa",
            home / ".netrc",
            home / ".cache" / "hub" / "model.bin",
        ):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(secret)
            path.chmod(0o666)
        kinds = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}
        self.sockets = {name: stack.enter_context(socket.socket(type=kind)) for name, kind in kinds.items()}
        for listener in self.sockets.values():
            listener.bind(("127.0.0.1", 0))
        names = {"path": f"{folder}/socket", "datagrams": f"{folder}/socket.datagrams", "abstract": f"\0{self.mark}"}
        for name, address in names.items():
            kind = socket.SOCK_DGRAM if name == "datagrams" else socket.SOCK_STREAM
            self.sockets[name] = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
            self.sockets[name].bind(address)
            if not address.startswith("\0"):
                os.chmod(address, 0o777)
        for name, listener in self.sockets.items():
            listener.setblocking(False)
            if name not in ("udp", "datagrams"):
                listener.listen()
        self.words = {
            "SECRET": folder / "secret", "HOME": home, "MARK": self.mark, "PARENT": os.getpid(), "HERE": HERE,
            "SOCKET": folder / "socket", "PORT": self.port("tcp"), "UDP": self.port("udp"), "PYTHON": sys.base_prefix,
            "INTERPRETER": os.path.realpath(sys.executable),
            "SANDBOX": Path(sys.modules[Sandbox.__module__].__file__ or "").parent,
        }  # fmt: skip

    def port(self, name: str) -> int:
        return int(self.sockets[name].getsockname()[1])

    def program(self, entry: Entry) -> Program:
        """The program, which names what lies about here."""
        source = re.sub(r"@([A-Z]+)@", lambda match: str(self.words[match[1]]), entry.source)
        return Program(source, "f" if entry.function else None)

    def tests(self, entry: Entry) -> list[Test] | list[Call]:
        """Two tests that no honest program passes."""
        if entry.function:
            return [Call([3], self.secret + "-1"), Call([3], self.secret + "-2")]
        return [Test("3\n", self.secret + "-1\n"), Test("3\n", self.secret + "-2\n")]

    def wrongs(self, grade: Grade) -> list[str]:
        """What a program did that it must not do."""
        claims = b"".join(outcome.stdout for outcome in grade.outcomes)  # a traceback on stderr may quote the program
        said = claims + "".join(outcome.stderr for outcome in grade.outcomes).encode()
        found = ["earned something"] * any(grade.passed) + ["said that it worked"] * (CLAIM in claims)
        found += ["read a secret"] * (self.secret.encode() in said)
        found += [f"left the process {number}" for number in descendants(os.getpid())]
        for name, listener in self.sockets.items():
            try:
                listener.recv(100) if name in ("udp", "datagrams") else listener.accept()[0].close()
                found.append(f"reached the socket {name}")
            except BlockingIOError:
                pass
        if (self.folder / "secret").read_text() != self.secret:
            found.append("changed a file")
        places = {"/", "/tmp", "/var/tmp", "/dev/shm", "/launcher", os.getcwd(), *map(str, self.folder.rglob("*"))}
        here = [path for place in places for path in Path(place).glob(f"*{self.mark}*") if path != self.folder]
        return found + [f"left the file {path}" for path in here]


@contextmanager
def surroundings(secret: str) -> Iterator[Surroundings]:
    """Surroundings in a folder that everybody can read, until the block ends."""
    # children whose parent ended become children of this process, so that it sees them
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    folder = Path(tempfile.mkdtemp(prefix="plat-surroundings-", dir="/tmp"))
    folder.chmod(0o777)
    try:
        with ExitStack() as stack:
            yield Surroundings(folder, secret, stack)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        for place in ("/tmp", "/var/tmp", "/dev/shm"):  # what a program left that was not in a box
            for path in Path(place).glob(f"plat-hostile-{os.getpid()}*"):
                path.unlink()


def descendants(root: int) -> list[int]:
    """The processes below one."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(path.parent.name)] = int(fields[1])
    below = {root}
    while more := {number for number, parent in parents.items() if parent in below} - below:
        below |= more
    return sorted(below - {root})


def grade_each(sandbox: Sandbox, around: Surroundings, keys: list[str]) -> dict[str, list[str]]:
    """Grade the programs one by one, each followed by an honest one: key -> what went wrong."""
    entries, report = hostile(), {}
    for key in keys:
        grade = sandbox.grade(around.program(entries[key]), around.tests(entries[key]))
        wrongs = around.wrongs(grade)
        started = time.monotonic()
        if not sandbox.grade(Program("print(input())"), [Test("fine", "fine")]).passed[0]:
            wrongs.append("made an honest program fail")
        if (delay := time.monotonic() - started) > LONG:
            wrongs.append(f"delayed the next program by {delay:.1f} s")
        report[key] = wrongs
    return report


def grade_together(sandbox: Sandbox, around: Surroundings, keys: list[str]) -> dict[str, list[str]]:
    """Grade the programs several at once, with an honest one after each ten: key -> what went wrong."""
    entries, programs = hostile(), []
    for number, key in enumerate(keys):
        programs.append((key, around.program(entries[key]), around.tests(entries[key])))
        if number % 10 == 9:
            programs.append((f"honest {number}", Program("print(input())"), [Test("fine", "fine")]))
    grades = sandbox.grade_all([(program, tests) for _, program, tests in programs])
    report = {}
    for (key, _, _), grade in zip(programs, grades, strict=True):
        honest_one = key.startswith("honest")
        report[key] = ["did not pass"] * (not grade.passed[0]) if honest_one else around.wrongs(grade)
    return report


def main(how: str, level: str, secret: str) -> None:
    """Grade the programs that stdin names, and print what went wrong with each."""
    grade = {"each": grade_each, "together": grade_together}[how]
    limits = LIMITS if how == "each" else replace(LIMITS, wall_seconds=0.8)
    with surroundings(secret) as around:
        print(json.dumps(grade(Sandbox(level, limits), around, json.load(sys.stdin))))


if __name__ == "__main__":
    main(*sys.argv[1:])
