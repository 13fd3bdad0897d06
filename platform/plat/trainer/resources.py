"""What a run needs of the machine that executes it: a typed thing, stated by its trainer.

`TrainerSpec.resources(config)` states it, as a `Resources` or as a mapping of the same names. A scheduler's profile,
and `cluster.KEY=VALUE` on the command line, can change what is asked for; neither ever changes a result.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.suggest import mend


@dataclass(frozen=True)
class Resources:
    """What one run needs. 0 and "" mean: whatever the place gives.

    threads    CPU threads
    gpus       GPUs on each node
    memory_mb  memory on each node, in MiB
    minutes    wall-clock limit; a run that needs longer goes on from its checkpoint in the next allocation
    nodes      machines
    partition  the scheduler's queue
    """

    threads: int = 1
    gpus: int = 0
    memory_mb: int = 0
    minutes: int = 0
    nodes: int = 1
    partition: str = ""

    @classmethod
    def of(cls, stated: Resources | Mapping[str, Any]) -> Resources:
        """From what a trainer states; SpecError for an unknown name, or a value of another type or sign."""
        if isinstance(stated, cls):
            cls.of(vars(stated))  # a dataclass takes any value
            return stated
        assert isinstance(stated, Mapping)
        types = {field.name: str if field.name == "partition" else int for field in dataclasses.fields(cls)}
        for name, value in stated.items():
            if name not in types:
                raise SpecError(f"unknown resource {name!r}", mend=mend(name, types, "one of"))
            negative = isinstance(value, int) and value < 0
            if not isinstance(value, types[name]) or isinstance(value, bool) or negative:
                wanted = "a text" if types[name] is str else "a whole number of at least 0"
                raise SpecError(
                    f"the resource {name} must be {wanted}, not {value!r}", mend="see TrainerSpec.resources"
                )
        return cls(**stated)

    def as_dict(self) -> dict[str, Any]:
        """`threads` and `gpus`, and whatever else is stated: what is recorded with a run."""
        defaults = Resources()
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name in ("threads", "gpus") or getattr(self, field.name) != getattr(defaults, field.name)
        }
