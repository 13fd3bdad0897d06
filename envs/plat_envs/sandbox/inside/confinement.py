"""How a child of the launcher gives up its rights, one after the other, before it reads the program."""

from __future__ import annotations

import ctypes
import errno
import math
import os
import resource
import signal
import stat
import struct
from collections.abc import Iterable
from typing import Any

# Landlock: the files that a process and its threads may open, without root and without namespaces.

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
WRITE_FILE, READ_FILE, READ_DIR = 1 << 1, 1 << 2, 1 << 3
# Version of Landlock -> number of rights on files that it knows
RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
RIGHTS_NOW = 16
TCP, SIGNALS_AND_ABSTRACT_SOCKETS = 0b11, 0b11


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def landlock_version(libc: ctypes.CDLL) -> int:
    """Return the version of the kernel's Landlock; 0 if it has none."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, 0, 1)))


def build_landlock_rules(libc: ctypes.CDLL, readable: Iterable[str]) -> int:
    """Return a descriptor of rules: what lies below the paths can be read, /dev/null also written, and nothing else.

    Raises OSError if the kernel has no Landlock.
    """
    abi = landlock_version(libc)
    rules = _Ruleset((1 << RIGHTS.get(abi, RIGHTS_NOW)) - 1, TCP, SIGNALS_AND_ABSTRACT_SOCKETS)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    descriptor = _landlock_call(libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0))
    for path in readable:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        is_folder = stat.S_ISDIR(os.fstat(folder).st_mode)
        allowed = READ_FILE | (READ_DIR if is_folder else 0) | (WRITE_FILE if path == "/dev/null" else 0)
        rule = _Beneath(allowed, folder)
        _landlock_call(libc.syscall(ADD_RULE, descriptor, 1, ctypes.byref(rule), 0))
        os.close(folder)
    return descriptor


def restrict_files(libc: ctypes.CDLL, rules: int) -> None:
    """Put this process under the rules for good. Raises OSError if the kernel refuses."""
    _landlock_call(libc.syscall(RESTRICT_SELF, rules, 0))


def _landlock_call(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "Landlock cannot be used")
    return result


# The calls of Linux that an untrusted program may make, with their numbers on x86_64.
#
# Everything that is not listed here or checked below is refused: fork, exec, sockets, ptrace, signals to
# others, namespaces, mounts, keys, io_uring, and each call that a later kernel adds.

AUDIT_ARCH_X86_64 = 0xC000003E

# fmt: off
ALWAYS = {
    # bytes, files and folders that are read
    "read": 0, "write": 1, "open": 2, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "lseek": 8, "pread64": 17,
    "pwrite64": 18, "readv": 19, "writev": 20, "access": 21, "pipe": 22, "dup": 32, "dup2": 33, "sendfile": 40,
    "flock": 73, "fsync": 74, "fdatasync": 75, "ftruncate": 77, "getdents": 78, "getcwd": 79, "chdir": 80,
    "fchdir": 81, "readlink": 89, "umask": 95, "statfs": 137, "fstatfs": 138, "getdents64": 217, "openat": 257,
    "newfstatat": 262, "readlinkat": 267, "faccessat": 269, "dup3": 292, "pipe2": 293, "preadv": 295, "pwritev": 296,
    "statx": 332, "close_range": 436, "faccessat2": 439,
    # memory
    "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "mremap": 25, "msync": 26, "madvise": 28,
    # signals of its own
    "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "pause": 34, "rt_sigpending": 127,
    "rt_sigtimedwait": 128, "rt_sigsuspend": 130, "sigaltstack": 131, "restart_syscall": 219,
    # waiting and time
    "poll": 7, "select": 23, "sched_yield": 24, "nanosleep": 35, "getitimer": 36, "alarm": 37, "setitimer": 38,
    "gettimeofday": 96, "times": 100, "time": 201, "epoll_create": 213, "clock_gettime": 228, "clock_getres": 229,
    "clock_nanosleep": 230, "epoll_wait": 232, "epoll_ctl": 233, "pselect6": 270, "ppoll": 271, "epoll_pwait": 281,
    "eventfd": 284, "eventfd2": 290, "epoll_create1": 291, "epoll_pwait2": 441,
    # threads
    "futex": 202, "set_tid_address": 218, "set_robust_list": 273, "membarrier": 324, "rseq": 334, "futex_waitv": 449,
    # what it is, and its end
    "getpid": 39, "recvfrom": 45, "exit": 60, "wait4": 61, "uname": 63, "getrlimit": 97, "getrusage": 98,
    "sysinfo": 99, "getuid": 102, "getgid": 104, "geteuid": 107, "getegid": 108, "getppid": 110, "getpgrp": 111,
    "getgroups": 115, "getresuid": 118, "getresgid": 120, "getpgid": 121, "getsid": 124, "getpriority": 140,
    "sched_getparam": 143, "sched_getscheduler": 145, "sched_get_priority_max": 146, "sched_get_priority_min": 147,
    "arch_prctl": 158, "setrlimit": 160, "gettid": 186, "sched_getaffinity": 204, "exit_group": 231, "getcpu": 309,
    "getrandom": 318,
}
# Only where the program has a folder of its own. Landlock does not cover all of them. Times of files are not set: the
# devices are those of the machine, and their times would tell the next test what the last one did.
IN_OWN_FOLDER = {
    "truncate": 76, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85, "link": 86, "unlink": 87, "symlink": 88,
    "chmod": 90, "fchmod": 91, "mkdirat": 258, "unlinkat": 263, "renameat": 264,
    "linkat": 265, "symlinkat": 266, "fchmodat": 268, "renameat2": 316,
}
# Allowed with some arguments only.
CHECKED = {
    "ioctl": 16, "sendto": 44, "socketpair": 53, "clone": 56, "kill": 62, "fcntl": 72, "prctl": 157, "tkill": 200,
    "tgkill": 234, "prlimit64": 302, "clone3": 435,
}
# fmt: on


# A seccomp filter for a process that computes: it may start threads, and reach nobody else.
#
# The filter is a list of calls that are allowed, so that a call which nobody thought of is refused.

LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06  # instructions of classic BPF
ALLOW, KILL, ERROR = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER, ARCHITECTURE = 0, 4  # offsets in struct seccomp_data
CLONE_THREAD, NEW_NAMESPACES = 0x10000, 0x7E020000
SET_NAME, GET_NAME = 15, 16
# isatty, size of a terminal, bytes that wait, close-on-exec, non-blocking
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5450, 0x5451, 0x5421)
# duplicate, flags and locks; F_SETOWN, F_SETOWN_EX and F_SETSIG would send signals to others
FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 1030)
STREAM_PAIR = 1  # AF_UNIX and SOCK_STREAM are both 1; a pair of datagram sockets could send to any name


def instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction of classic BPF."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def argument(position: int, high: bool = False) -> bytes:
    """Load the lower or the higher half of an argument of the call."""
    return instruction(LOAD, 16 + 8 * position + 4 * high)


def one_of(values: tuple[int, ...], otherwise: int = errno.EPERM) -> bytes:
    """Allow the call if the loaded word is one of some values, else answer with an error."""
    tests = b"".join(instruction(EQUAL, value, 0, 1) + instruction(RETURN, ALLOW) for value in values)
    return tests + instruction(RETURN, ERROR | otherwise)


def zero(position: int) -> bytes:
    """Answer with an error unless both halves of an argument are zero."""
    refuse = instruction(RETURN, ERROR | errno.EPERM)
    return b"".join(argument(position, high) + instruction(EQUAL, 0, 1, 0) + refuse for high in (False, True))


def build_filter(pid: int, own_folder: bool) -> bytes:
    """Return the filter of the process `pid`. `own_folder`: it may change files where the box lets it."""
    only_itself = argument(0) + one_of((pid,))
    checks = {
        "ioctl": argument(1) + one_of(IOCTLS, errno.ENOTTY),
        "fcntl": argument(1) + one_of(FCNTLS, errno.EINVAL),
        "prctl": argument(0) + one_of((SET_NAME, GET_NAME), errno.EINVAL),
        "clone": argument(0) + instruction(AND, CLONE_THREAD | NEW_NAMESPACES) + one_of((CLONE_THREAD,)),
        "clone3": instruction(RETURN, ERROR | errno.ENOSYS),  # its flags lie in memory; libc falls back to clone
        "kill": only_itself,
        "tkill": only_itself,
        "tgkill": only_itself,
        "prlimit64": argument(0) + one_of((0, pid)),
        "socketpair": argument(0)
        + instruction(EQUAL, STREAM_PAIR, 1, 0)
        + instruction(RETURN, ERROR | errno.EPERM)
        + argument(1)
        + instruction(AND, 0xF)
        + one_of((STREAM_PAIR,)),
        "sendto": zero(4) + instruction(RETURN, ALLOW),
    }
    program = instruction(LOAD, ARCHITECTURE) + instruction(EQUAL, AUDIT_ARCH_X86_64, 1, 0) + instruction(RETURN, KILL)
    program += instruction(LOAD, NUMBER)
    program += instruction(AT_LEAST, 0x40000000, 0, 1) + instruction(RETURN, KILL)  # numbers of the x32 interface
    for number in sorted([*ALWAYS.values(), *(IN_OWN_FOLDER.values() if own_folder else ())]):
        program += instruction(EQUAL, number, 0, 1) + instruction(RETURN, ALLOW)
    for name, check in checks.items():
        program += instruction(EQUAL, CHECKED[name], 0, len(check) // 8) + check
    return program + instruction(RETURN, ERROR | errno.EPERM)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def install_filter(libc: ctypes.CDLL, pid: int, own_folder: bool) -> None:
    """Install the filter in this process for good. Raises OSError if the kernel refuses it."""
    code = build_filter(pid, own_folder)
    program = _Program(len(code) // 8, code)
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "the kernel refuses the seccomp filter")


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
        restrict_files(libc, rules)
        os.close(rules)
    if setup["level"] != "limits_only":
        install_filter(libc, os.getpid(), own_folder)


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
