"""Try a box with hostile programs before it is used: each tries one thing that a box must not allow."""

from __future__ import annotations

import os
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from plat_envs.environment_errors import BadEnvironment
from plat_envs.sandbox.program import Limits, Outcome, Program

LIMITS = Limits(cpu_seconds=2, wall_seconds=20, memory_bytes=256 << 20)
PROGRAM = Program("import sys\nexec(sys.stdin.read())\n")
HONEST = "print(6 * 7)"
DONE = b"it worked"
# What a hostile program did -> the program, which says so itself
HOSTILE = {
    "read a file of this machine": "print(open({secret!r}).read())",
    "read the environment of its parent": """
import os
if open(f"/proc/{{os.getppid()}}/environ").read(): print("it worked")
""",
    "reached the network": """
import socket
socket.create_connection(("127.0.0.1", {port}), 2); print("it worked")
""",
    "started a process": """
import os
if os.fork(): print("it worked")
""",
    "sent a signal to its parent": """
import os
os.kill(os.getppid(), 0); print("it worked")
""",
    "took more memory than it may": "data = bytearray(512 << 20); print('it worked')",
    "wrote a file of this machine": "open({written!r}, 'w').write('it worked')",
}


class Opened(Protocol):
    """An open box: it runs a program once for each input."""

    def run_each(self, program: Program, stdins: Sequence[bytes]) -> Iterator[Outcome]:
        """Run the program once for each input."""


def hostile_successes(open_box: Callable[[Limits], AbstractContextManager[Opened]]) -> list[str]:
    """Return what the hostile programs managed to do in a box; [] if nothing.

    Raises BadEnvironment if the box does not start, or does not run an honest program.
    """
    with tempfile.TemporaryDirectory(prefix="plat-probe-") as folder, socket.create_server(("127.0.0.1", 0)) as server:
        os.chmod(folder, 0o777)
        secret, written = Path(folder, "secret"), Path(folder, "written")
        secret.write_bytes(DONE)
        facts = {"secret": str(secret), "written": str(written), "port": server.getsockname()[1]}
        sources = [HONEST, *(source.format(**facts) for source in HOSTILE.values())]
        with open_box(LIMITS) as box:
            honest, *hostile = box.run_each(PROGRAM, [source.encode() for source in sources])
        if honest.status != "ok" or honest.stdout.strip() != b"42":
            last = honest.stderr.strip().rpartition("\n")[2]
            raise BadEnvironment(f"an honest program does not run in it ({last or honest.status})")
        succeeded = [what for what, outcome in zip(HOSTILE, hostile, strict=True) if DONE in outcome.stdout]
        return succeeded + [list(HOSTILE)[-1]] * written.exists()
