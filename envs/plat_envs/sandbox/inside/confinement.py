"""How a child of the launcher gives up its rights, one after the other, before it reads the program."""

from __future__ import annotations

import ctypes
import math
import os
import resource
import signal
from typing import Any

from plat_envs.sandbox.inside import landlock, seccomp

NEW_MOUNTS, PRIVATE = 0x20000, 0x4000 | (1 << 18)  # CLONE_NEWNS; MS_REC | MS_PRIVATE
NO_SETUID_NO_DEVICES_NO_EXEC = 2 | 4 | 8
PARENT_DEATH_SIGNAL, DUMPABLE, KEEP_CAPABILITIES, NO_NEW_PRIVILEGES = 1, 4, 8, 38
SEARCH_FOLDERS = 1 << 2  # CAP_DAC_READ_SEARCH
OTHER_USERS = 1 << 5 | 1 << 6 | 1 << 7  # CAP_KILL, CAP_SETGID, CAP_SETUID: a container may take them from root
FILES_OF_A_FOLDER = 256
LARGEST_STACK = 64 << 20


def confine(libc: ctypes.CDLL, setup: dict[str, Any], rules: int | None) -> None:
    """Give up every right that a computing process does not need. Raises OSError if one of the steps fails.

    setup   `level`, `limits` and `uid`, as `plat_envs.sandbox.box` writes them
    rules   a descriptor of Landlock's rules, if the level has them
    """
    own_folder = setup["level"] == "namespaces"
    os.setsid()  # a group of its own, so that no signal to a group reaches the launcher
    if own_folder:
        _make_folder(libc, setup["limits"])
    _change_user(libc, setup["uid"], keep=0 if own_folder else SEARCH_FOLDERS)
    _set_limits(setup)
    _call(libc.prctl(PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0))
    _call(libc.prctl(DUMPABLE, 0, 0, 0, 0))  # a crash starts no program that collects it
    _call(libc.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0))
    if rules is not None:
        landlock.restrict(libc, rules)
        os.close(rules)
    if setup["level"] != "limits_only":
        seccomp.install(libc, os.getpid(), own_folder)


def _make_folder(libc: ctypes.CDLL, limits: dict[str, Any]) -> None:
    """Mount an empty /tmp that this process alone sees and that ends with it."""
    _call(libc.unshare(NEW_MOUNTS))
    _call(libc.mount(None, b"/", None, ctypes.c_ulong(PRIVATE), None))
    options = f"size={limits['file_bytes']},nr_inodes={FILES_OF_A_FOLDER},mode=1777".encode()
    _call(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(NO_SETUID_NO_DEVICES_NO_EXEC), options))
    os.chdir("/tmp")


def _change_user(libc: ctypes.CDLL, uid: int | None, keep: int) -> None:
    """Become a user whom nobody else is, and drop all capabilities but `keep`.

    Only a box of its own has Python in a place that everybody may read. Elsewhere root keeps the right to read files,
    which Landlock then limits.
    """
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    # effective, permitted and inheritable: the lower 32 capabilities, then the higher ones
    own = (ctypes.c_uint32 * 6)()
    _call(libc.capget(header, own))
    if uid is None or own[1] & OTHER_USERS != OTHER_USERS:
        keep = 0
    else:
        keep &= own[1]
        _call(libc.prctl(KEEP_CAPABILITIES, 1, 0, 0, 0))
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    _call(libc.capset(header, (ctypes.c_uint32 * 6)(keep, keep, 0, 0, 0, 0)))


def _set_limits(setup: dict[str, Any]) -> None:
    limits = setup["limits"]
    wanted = {
        resource.RLIMIT_CPU: math.ceil(limits["cpu_seconds"]) + 1,  # if the launcher is late
        resource.RLIMIT_AS: limits["memory_bytes"],
        resource.RLIMIT_FSIZE: limits["file_bytes"],
        resource.RLIMIT_NOFILE: limits["files"],
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_STACK: min(LARGEST_STACK, limits["memory_bytes"]),
    }
    if setup["uid"] is not None or setup["level"] == "namespaces":  # else all processes of the user would count
        wanted[resource.RLIMIT_NPROC] = limits["threads"]
    for kind, value in wanted.items():
        hard = resource.getrlimit(kind)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))


def _call(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses a step of the sandbox")
