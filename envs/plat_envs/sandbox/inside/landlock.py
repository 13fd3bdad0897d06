"""Landlock: the files that a process and its threads may open, without root and without namespaces."""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable

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


def version(libc: ctypes.CDLL) -> int:
    """Return the version of the kernel's Landlock; 0 if it has none."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, 0, 1)))


def build_rules(libc: ctypes.CDLL, readable: Iterable[str]) -> int:
    """Return a descriptor of rules: what lies below the paths can be read, /dev/null also written, and nothing else.

    Raises OSError if the kernel has no Landlock.
    """
    abi = version(libc)
    rules = _Ruleset((1 << RIGHTS.get(abi, RIGHTS_NOW)) - 1, TCP, SIGNALS_AND_ABSTRACT_SOCKETS)
    size = 8 if abi < 4 else 16 if abi < 6 else 24
    descriptor = _checked(libc.syscall(CREATE_RULESET, ctypes.byref(rules), ctypes.c_size_t(size), 0))
    for path in readable:
        try:
            folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        is_folder = stat.S_ISDIR(os.fstat(folder).st_mode)
        allowed = READ_FILE | (READ_DIR if is_folder else 0) | (WRITE_FILE if path == "/dev/null" else 0)
        rule = _Beneath(allowed, folder)
        _checked(libc.syscall(ADD_RULE, descriptor, 1, ctypes.byref(rule), 0))
        os.close(folder)
    return descriptor


def restrict(libc: ctypes.CDLL, rules: int) -> None:
    """Put this process under the rules for good. Raises OSError if the kernel refuses."""
    _checked(libc.syscall(RESTRICT_SELF, rules, 0))


def _checked(result: int) -> int:
    if result < 0:
        raise OSError(ctypes.get_errno(), "Landlock cannot be used")
    return result
