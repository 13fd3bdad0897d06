"""Import modules under the names that they had in plat 0.4, for plug-ins written for it. To be deleted after 0.6.

The filtered trainer moved from `plat` to `plat_rl`: `import plat.rl.filter` is the module
`plat_rl.rl.filter`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

MOVED = {
    "plat.rl.peak": "plat.peak",
    "plat.trainer.sessions": "plat_rl.environments",
    "plat.rl": "plat_rl.rl",
    "plat.conf": "plat_rl.conf",
    **{
        f"plat.trainer.{name}": f"plat_rl.{name}"
        for name in ("embedded", "loop", "verl", "environments", "run_config", "validation")
    },
}


def present_name(name: str) -> str | None:
    """Return the name that a module of plat 0.4 has now, or None if it did not move."""
    for old, new in MOVED.items():
        if name == old or name.startswith(old + "."):
            return new + name.removeprefix(old)
    return None


class MovedModules:
    """Finder and loader for `sys.meta_path`.

    It is asked before all others: the folder of a moved package would give its modules a second time.
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: object = None) -> ModuleSpec | None:
        present = present_name(name) if name.startswith("plat.") else None
        return None if present is None else ModuleSpec(name, self, origin=present)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(str(spec.origin))
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Undo what the import system changed in the module: it has its own name and place."""
        alias = module.__spec__
        assert alias is not None
        module.__spec__ = alias.loader_state


def install() -> None:
    """Add the finder, once a process."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, MovedModules())


# The packages of plat's own distribution: their code counts by the versions of its trainers, not by its files.


@lru_cache(maxsize=1)
def own_packages() -> frozenset[str]:
    """Return the top-level packages of the distribution plat: `plat`, and those in which its plug-ins are.

    An editable install that is older than a move of modules names their earlier places; their present ones count, too.
    """
    from importlib.metadata import PackageNotFoundError, distribution  # a slow import

    modules = ["plat", *MOVED.values()]
    with contextlib.suppress(PackageNotFoundError):
        modules += [point.module for point in distribution("plat").entry_points]
    return frozenset(module.partition(".")[0] for module in modules)
