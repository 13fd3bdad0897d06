"""The command that starts a launcher: what a box can read, and what bubblewrap shuts out."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path

from plat_envs.environment_errors import BadEnvironment

SOURCES = Path(__file__).resolve().parents[2]  # holds plat_envs
INSIDE = Path(__file__).resolve().parent / "inside"
ROOT_OF_BOX = "/launcher"
# Not -I, which would ignore PYTHONHASHSEED; the environment is ours alone. No site-packages, no .pth files.
FLAGS = ("-S", "-s", "-P", "-B", "-X", "utf8")
ENVIRONMENT = {"PYTHONHASHSEED": "0", "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
DEVICES = ("/dev/null", "/dev/zero", "/dev/random", "/dev/urandom")
CAPABILITIES = ("SYS_ADMIN", "KILL", "SETUID", "SETGID")  # of the launcher: a /tmp, an end and a user for each child
START = (
    "import sys; sys.path.insert(0, sys.argv[1]); from plat_envs.sandbox.inside.launcher import main; main(sys.argv[1])"
)


def check_machine() -> None:
    """Raise BadEnvironment unless this is Linux on x86_64, whose calls the filter knows."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        what = f"the sandbox filters calls of Linux on x86_64, and this is {sys.platform} on {platform.machine()}"
        raise BadEnvironment(what, fix="name a grader: --level remote --url URL")


def interpreter() -> str:
    """Return the path of the interpreter itself, behind links and virtual environments."""
    return os.path.realpath(sys.executable)


def python_files() -> list[str]:
    """Return what the interpreter reads: its program and its library."""
    libraries = [os.path.join(sys.base_prefix, name) for name in ("lib", "lib64")]
    return [interpreter(), *(path for path in libraries if os.path.isdir(path))]


def readable() -> list[str]:
    """Return what Landlock lets a program read."""
    system = ["/usr", "/lib", "/lib64", "/etc/ld.so.cache"]
    return [*system, *python_files(), *DEVICES]


def direct() -> list[str]:
    """Return the command of a launcher that sees this machine; its children give up their rights themselves."""
    return [interpreter(), *FLAGS, "-c", START, str(SOURCES)]


def in_namespaces() -> list[str]:
    """Return the command of a launcher in namespaces of its own. Raises BadEnvironment without bubblewrap."""
    program = shutil.which("bwrap")
    if program is None:
        raise BadEnvironment("bubblewrap is not installed", fix="apt-get install bubblewrap")
    command = [program, "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    command += ["--unshare-user"] if os.geteuid() else []
    # as process 1 the launcher is waited for, and ends all others with it
    command += ["--as-pid-1", "--die-with-parent", "--new-session", "--hostname", "box", "--cap-drop", "ALL"]
    for name in CAPABILITIES:
        command += ["--cap-add", f"CAP_{name}"]
    command += ["--ro-bind", "/usr", "/usr"]
    for name in ("lib", "lib32", "lib64", "bin", "sbin"):
        if os.path.islink(f"/{name}"):
            command += ["--symlink", f"usr/{name}", f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            command += ["--ro-bind", f"/{name}", f"/{name}"]
    for path in (*python_files(), "/etc/ld.so.cache"):
        if not path.startswith("/usr/") and os.path.exists(path):
            for parent in reversed(Path(path).parents[:-1]):
                command += ["--perms", "0755", "--dir", str(parent)]  # as a parent, it would be as closed as here
            command += ["--ro-bind", path, path]
    command += ["--perms", "0755", "--dir", "/dev"]  # as the parent of a device, only root could enter it
    for device in DEVICES:
        command += ["--dev-bind", device, device]
    command += ["--ro-bind", str(INSIDE), f"{ROOT_OF_BOX}/plat_envs/sandbox/inside", "--dir", "/tmp"]
    command += ["--remount-ro", "/", "--chdir", "/"]
    return [*command, "--", interpreter(), *FLAGS, "-c", START, ROOT_OF_BOX]
