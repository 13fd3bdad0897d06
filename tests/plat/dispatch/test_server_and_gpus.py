"""The worker server asks nothing of a GPU: a process that has, can fork none that uses one."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

# Everything through which Python code starts CUDA, or asks its driver so that forked processes cannot use it.
ASK = """
import socket, sys
import torch
asked = []
for name in ("is_available", "device_count", "init", "_lazy_init", "current_device", "get_device_properties"):
    def wrapped(*args, name=name, real=getattr(torch.cuda, name), **options):
        asked.append(name)
        return real(*args, **options)
    setattr(torch.cuda, name, wrapped)

from plat.dispatch.local.server import Server

Server(socket.socketpair()[0]).warm_up(sys.argv[1:])
assert "plat_rl.embedded.train" in sys.modules or "embedded" not in sys.argv
assert not torch.cuda.is_initialized() and not torch.cuda._is_in_bad_fork()
print("asked:", *asked)
"""


@pytest.mark.parametrize("trainer", ["embedded", "script", "recorded"])
def test_the_server_asks_nothing_of_a_gpu_before_it_forks(trainer: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ASK, trainer], capture_output=True, text=True, timeout=120, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["asked:"], done.stdout
