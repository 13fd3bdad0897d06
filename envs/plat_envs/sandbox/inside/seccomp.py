"""A seccomp filter for a process that computes: it may start threads, and reach nobody else.

The filter is a list of calls that are allowed, so that a call which nobody thought of is refused.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from plat_envs.sandbox.inside.system_calls import ALWAYS, AUDIT_ARCH_X86_64, CHECKED, IN_OWN_FOLDER

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


def install(libc: ctypes.CDLL, pid: int, own_folder: bool) -> None:
    """Install the filter in this process for good. Raises OSError if the kernel refuses it."""
    code = build_filter(pid, own_folder)
    program = _Program(len(code) // 8, code)
    if libc.prctl(22, 2, ctypes.byref(program), 0, 0):  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
        raise OSError(ctypes.get_errno(), "the kernel refuses the seccomp filter")
