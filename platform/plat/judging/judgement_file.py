"""Write the experiment file of a judgement: two versions of a command, one claim, and seeds until it is decided.

<home>/judgements/<name>.yaml
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.judging.versions import Version
from plat.spec.expansion.decide import LEAST
from plat.store.disk import durable
from plat.store.home import Home

OLD, NEW, CLAIM = "old", "new", "better"
NO_MARGIN = 1e-12  # a row then stops where the new version is probably not better at all
MOST = 20  # pairs


@dataclass(frozen=True)
class Design:
    """What is judged, fixed before the first run.

    metric   the name of a metric, whose last value counts
    lower    smaller values are better
    margin   a smaller improvement is none, in the unit of the metric; None: any improvement counts
    most     the most pairs
    reads    `script.metrics`: what reads the metrics; `text` reads JSON and text of the output
    timeout  seconds after which a run fails; 0: no limit
    """

    metric: str
    lower: bool = False
    margin: float | None = None
    most: int = MOST
    reads: Any = "text"
    timeout: float = 0.0

    def checked(self) -> Design:
        """Return the design. Raises SpecError for a metric without a name, a margin or a number that cannot be used."""
        if not self.metric.strip():
            raise SpecError(
                "there is no metric", where="--metric", fix="name one that the command prints: --metric loss"
            )
        if self.margin is not None and not 0 < self.margin < float("inf"):
            what = f"{self.margin:g} is not the size of an improvement"
            raise SpecError(what, where="--margin", fix="give a number above 0, in the unit of the metric")
        if self.most < LEAST:
            what = f"{self.most} pairs cannot decide: the first look is at {LEAST}"
            raise SpecError(what, where="--most", fix=f"give {LEAST} or more")
        return self


def content(design: Design, old: Version, new: Version, first_seed: int = 0) -> dict[str, Any]:
    """Return the experiment file as a dict; its claim is shown if the new version is better."""
    first, second = (NEW, OLD) if design.lower else (OLD, NEW)
    sides = {OLD: old, NEW: new}
    return {
        "title": f"{new.name} against {old.name}",
        "base": {
            "trainer": "script",
            "script.metrics": design.reads,
            "script.metric": design.metric,
            "script.goal": "minimize" if design.lower else "maximize",
            **({"script.timeout": design.timeout} if design.timeout else {}),
        },
        "matrix": {
            "version": {
                name: {"script.command": side.command, "script.folder": str(side.folder)}
                for name, side in sides.items()
            },
            "seed": [first_seed],
        },
        "decide": {"most": design.most, **({"margin": design.margin} if design.margin else {})},
        "claims": [
            {
                "id": CLAIM,
                "says": f"The new version has a {'lower' if design.lower else 'higher'} {design.metric}.",
                "check": "mean_delta_positive",
                "pair": "version",
                "baseline": first,
                "treatment": second,
                "measure": {"metric": design.metric},
                "smallest": design.margin or NO_MARGIN,
            }
        ],
    }


def write_file(home: Home, design: Design, old: Version, new: Version, first_seed: int = 0) -> Path:
    """Write the experiment file of a judgement, named by what is judged, and return its path.

    The same question gives the same file, so that the same command goes on with its runs.
    """
    import yaml

    made = content(design, old, new, first_seed)
    name = f"judge-{hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()[:8]}"
    path = home.create().judgements / f"{name}.yaml"
    path.parent.mkdir(exist_ok=True)
    durable.write(path, yaml.safe_dump(made, sort_keys=False, allow_unicode=True, width=110).encode())
    return path
