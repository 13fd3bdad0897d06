"""The source files of plug-ins that are no installed release: their content is part of the identity of runs.

A released plug-in does not change without a new version. A script beside an experiment file, an editable install, or a
package installed from a folder does, so its runs are told apart by the hash of the files that make them:

    the modules in which the functions and types of its TrainerSpec or EnvironmentSpec are defined
    every module that these import, directly or not, that is neither of Python, of an installed release, nor of plat

So a report builder in the same package may change. Limits: a module whose name is made while running, and files that
are no Python, are not seen.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plat.trainer.imported_files import DIGITS, imported_files

TRAINER = "trainer"  # the key of a run's trainer among those of its plug-ins
CODE = "code "  # begins what an identity says of a plug-in's code


@dataclass(frozen=True)
class PluginCode:
    """What a plug-in is made of.

    files  name of a file, from the folder of its top-level module -> the first 16 digits of its SHA-256
    named  what the author calls this code (`code` of a TrainerSpec or EnvironmentSpec); None: the files count
    """

    files: Mapping[str, str]
    named: str | None = None

    @property
    def digest(self) -> str:
        """What is hashed into the id of a run."""
        return self.named or hashlib.sha256(json.dumps(sorted(self.files.items())).encode()).hexdigest()[:DIGITS]


def plugin_code(spec: Any) -> PluginCode | None:
    """The code of a TrainerSpec or an EnvironmentSpec; None for an installed release, and for plat's own."""
    files: dict[str, str] = {}
    for module in dict.fromkeys(_modules(spec)):
        files |= imported_files(module)
    return PluginCode(files, getattr(spec, "code", None)) if files else None


def code_facts(key: str, spec: Any) -> list[tuple[str, str]]:
    """What the identity of a run has of the code of a plug-in that a key of its config names; [] for a release."""
    code = plugin_code(spec)
    return [] if code is None else [(key, CODE + code.digest)]


def changed_files(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """The names of files that are new, gone or different, sorted."""
    return sorted(name for name in {*before, *now} if before.get(name) != now.get(name))


def _modules(spec: Any) -> list[str]:
    """The modules that define the functions and types of a spec."""
    return [module for value in vars(spec).values() if callable(value) and (module := _module(value))]


def _module(value: Any) -> str:
    while isinstance(value, functools.partial):
        value = value.func
    return str(getattr(value, "__module__", None) or "")
