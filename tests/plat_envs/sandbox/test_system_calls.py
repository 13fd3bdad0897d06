"""The numbers of the calls, beside the header of the system; and what a filter made of them answers."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from plat_envs.sandbox.inside import confinement
from plat_envs.sandbox.inside.confinement import ALWAYS, AUDIT_ARCH_X86_64, CHECKED, IN_OWN_FOLDER

HEADERS = ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", "/usr/include/asm/unistd_64.h")
ALL = {**ALWAYS, **IN_OWN_FOLDER, **CHECKED}
PID = 77
REFUSED = confinement.ERROR | errno.EPERM


def test_the_numbers_are_those_of_the_system():
    path = next((Path(name) for name in HEADERS if Path(name).exists()), None)
    if path is None:
        pytest.skip("no header of the system with the numbers of its calls")
    known = {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)", path.read_text())}
    newer = set(ALL) - set(known)  # an old header lacks them
    assert {name: number for name, number in ALL.items() if name not in newer} == {
        name: known[name] for name in ALL if name not in newer
    }
    assert len(newer) < 5 and len(set(ALL.values())) == len(ALL)


def answer(number: int, *arguments: int, own_folder: bool = True, architecture: int = AUDIT_ARCH_X86_64) -> int:
    """What the filter answers to a call, worked out by a small interpreter of classic BPF."""
    words = [argument & (1 << 64) - 1 for argument in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("=iIQ6Q", number, architecture, 0, *words)
    program = list(struct.iter_unpack("=HBBI", confinement.build_filter(PID, own_folder)))
    word = position = 0
    while True:
        code, if_true, if_false, value = program[position]
        position += 1
        if code == confinement.LOAD:
            (word,) = struct.unpack_from("=I", data, value)
        elif code == confinement.AND:
            word &= value
        elif code == confinement.EQUAL:
            position += if_true if word == value else if_false
        elif code == confinement.AT_LEAST:
            position += if_true if word >= value else if_false
        else:
            assert code == confinement.RETURN
            return int(value)


def test_what_is_listed_is_allowed_and_everything_else_refused():
    for number in range(600):
        if number in CHECKED.values():
            continue
        allowed = number in ALWAYS.values() or number in IN_OWN_FOLDER.values()
        assert answer(number) == (confinement.ALLOW if allowed else REFUSED), number
        if number in IN_OWN_FOLDER.values():
            assert answer(number, own_folder=False) == REFUSED


@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("clone", (0x3D0F00,), True),  # what libc gives for a thread
        ("clone", (17,), False),
        ("clone", (0x3D0F00 | 0x10000000,), False),
        ("clone", (0x4111,), False),
        ("kill", (PID, 9), True),
        ("kill", (PID + 1, 9), False),
        ("kill", (-1, 9), False),
        ("kill", (0, 9), False),
        ("tgkill", (PID, PID + 3, 6), True),
        ("tgkill", (1, 1, 9), False),
        ("prlimit64", (0, 3), True),
        ("prlimit64", (1, 3), False),
        ("ioctl", (0, 0x5401), True),
        ("ioctl", (0, 0x5412), False),
        ("fcntl", (0, 3), True),
        ("fcntl", (0, 8, 1), False),
        ("socketpair", (1, 0x80801), True),
        ("socketpair", (1, 2), False),
        ("socketpair", (2, 1), False),
        ("sendto", (3, 4, 5, 0, 0, 0), True),
        ("sendto", (3, 4, 5, 0, 1, 16), False),
        ("sendto", (3, 4, 5, 0, 1 << 40, 16), False),
        ("prctl", (15,), True),
        ("prctl", (1, 0), False),
        ("clone3", (0, 0), False),
    ],
)
def test_calls_whose_arguments_decide(name, arguments, allowed):
    assert (answer(CHECKED[name], *arguments) == confinement.ALLOW) is allowed


def test_clone3_is_unknown_so_that_libc_falls_back():
    assert answer(CHECKED["clone3"]) == confinement.ERROR | errno.ENOSYS


def test_other_interfaces_end_the_process():
    assert answer(ALWAYS["read"], architecture=0x40000003) == confinement.KILL
    assert answer(ALWAYS["read"] | 0x40000000) == confinement.KILL
