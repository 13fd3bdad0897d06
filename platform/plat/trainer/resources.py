"""The resources that a run needs of the machine that executes it, as its trainer states them.

`Trainer.resources(config)` returns a `Resources` or a mapping of the same names. A scheduler's profile, and
`cluster.KEY=VALUE` on the command line, can override them; neither changes a result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest


@dataclass(frozen=True)
class Resources:
    """Resources of one run. 0 and "" mean the default of the machine or scheduler.

    threads    CPU threads
    gpus       GPUs on each node; a dispatcher may replace it by a share of one GPU, such as 0.25
    memory_mb  memory on each node, in MiB
    minutes    wall-clock limit; a longer run resumes from its checkpoint in the next allocation
    nodes      machines
    partition  the scheduler's queue
    """

    threads: int = 1
    gpus: float = 0
    memory_mb: int = 0
    minutes: int = 0
    nodes: int = 1
    partition: str = ""

    @classmethod
    def of(cls, stated: Resources | Mapping[str, Any]) -> Resources:
        """Return the resources that a trainer states. Raises SpecError for an unknown name, or a wrong type or sign."""
        if isinstance(stated, cls):
            cls.of(vars(stated))  # a dataclass takes any value
            return stated
        assert isinstance(stated, Mapping)
        types = {field.name: str if field.name == "partition" else int for field in dataclasses.fields(cls)}
        for name, value in stated.items():
            if name not in types:
                raise SpecError(f"unknown resource {name!r}", fix=suggest(name, types, "one of"))
            negative = isinstance(value, int) and value < 0
            if not isinstance(value, types[name]) or isinstance(value, bool) or negative:
                wanted = "a text" if types[name] is str else "a whole number of at least 0"
                raise SpecError(f"the resource {name} must be {wanted}, not {value!r}", fix="see Trainer.resources")
        return cls(**stated)

    def as_dict(self) -> dict[str, Any]:
        """Return `threads`, `gpus` and every value that is not the default, for the record of a run."""
        usual = vars(Resources())
        return {
            name: value for name, value in vars(self).items() if name in ("threads", "gpus") or value != usual[name]
        }
