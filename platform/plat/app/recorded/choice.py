"""What a user chooses of the runs to import."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

NO_SEED = "none"  # `--seed none`: number the runs of equal values, whatever seeds they have


@dataclass(frozen=True)
class Choice:
    """The options of an import.

    axes        keys of values that become axes; empty: all that vary
    seed        the key of the seed; "": a key `seed`, or the only one that ends in .seed or _seed; NO_SEED: none
    metrics     empty: all
    step        the metric or column that counts steps; "": the source's own step
    experiment  of MLflow
    unfinished  also import runs that did not finish
    """

    axes: tuple[str, ...] = ()
    seed: str = ""
    metrics: tuple[str, ...] = ()
    step: str = ""
    experiment: str = ""
    unfinished: bool = False

    def seed_key(self, keys: Collection[str]) -> str:
        """Return the key that holds seeds, even if they do not count; "" if none or several may be meant."""
        if self.seed not in ("", NO_SEED):
            return self.seed
        if "seed" in keys:
            return "seed"
        found = [key for key in keys if key.lower() == "seed" or key.endswith((".seed", "_seed"))]
        return found[0] if len(found) == 1 else ""
