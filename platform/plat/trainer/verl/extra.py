"""What verl's trainer needs besides verl itself, whose losses every trainer uses: the extra `verl` of this package."""

from __future__ import annotations

from importlib.util import find_spec

from plat.errors import SpecError

NEEDED = ("transfer_queue", "msgspec", "zmq", "tensordict", "torchdata", "peft", "accelerate", "datasets")


def require() -> None:
    """SpecError when a package is missing, with what to install."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise SpecError(
            f"the trainer verl needs packages that are not installed: {', '.join(missing)}",
            where="trainer",
            mend="pip install 'plat[verl]'",
        )
