"""What `plat doctor` checks for this package: environments of others, the sandbox, and torch."""

from __future__ import annotations

import time

from plat.errors import PlatError
from plat.extras import is_installed
from plat.plugins.doctor import Finding
from plat.plugins.loading import load_plugin, published


def check_environments() -> Finding:
    """Play random episodes in every environment of another package, with default options, and name what fails."""
    from plat_rl.loop.check_task import is_plugged_in, play

    played, broken, unread = [], [], []
    for name in published("plat.environments"):
        try:
            spec = load_plugin("plat.environments", name)
            if not is_plugged_in(spec):
                continue
            played.append(name)
            play(spec, spec.config_type(), "compact", only_known_words=False)
        except PlatError as error:
            broken.append(f"{error.what} ({error.where})" if error.where else error.what)
            continue
        try:
            play(spec, spec.config_type(), "compact", only_known_words=True)
        except PlatError as error:
            unread.append(error.what)
    if broken:
        return Finding("error", "; ".join(broken), "fix the package that publishes it: docs/adding-a-trainer.md")
    if unread:
        return Finding("warning", "; ".join(unread), "no stand-in can play it: use the words of the vocabulary")
    return Finding("ok", f"played: {', '.join(played) or 'no environment of another package is installed'}")


def check_sandbox() -> Finding:
    """Try the levels of the sandbox with hostile programs, down to the first that this machine has."""
    from plat_envs.environment_errors import BadEnvironment
    from plat_envs.sandbox.levels import choose, provenance

    try:
        facts = provenance(choose())
    except BadEnvironment as error:
        return Finding("warning", error.what, error.fix or "")
    level = facts.pop("level")
    return Finding("ok", f"{level}: {', '.join(f'{name} {value}' for name, value in facts.items())}")


def check_torch() -> Finding:
    """Multiply matrices with torch; report the speed of one thread and the CUDA devices."""
    if not is_installed("torch"):
        return Finding("warning", "not installed, and runs of files with `task:` need it", "pip install 'plat[rl]'")
    try:
        import torch
    except Exception as error:
        return Finding("error", f"cannot be imported: {error}", "make install")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    left = torch.randn(768, 768)
    left @ left
    started = time.perf_counter()
    for _ in range(10):
        left @ left
    rate = 10 * 2 * 768**3 / (time.perf_counter() - started) / 1e9
    torch.set_num_threads(threads)
    devices = [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]
    return Finding("ok", f"{torch.__version__}, {rate:.0f} GFLOP/s a thread, CUDA: {', '.join(devices) or 'none'}")
