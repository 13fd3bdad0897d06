"""Check optional dependencies: the modules of each extra of plat, and one message for missing ones."""

from __future__ import annotations

from importlib.util import find_spec

from plat.errors import SpecError

# extra -> the modules that plat imports from its packages; `pyproject.toml` names the packages.
EXTRAS = {
    "verl": (
        *("verl", "ray", "transformers", "datasets", "tensordict"),
        *("transfer_queue", "msgspec", "zmq", "torchdata", "peft", "accelerate"),
    ),
    "ray": ("ray",),
    "search": ("optuna",),
    "tensorboard": ("tensorboard",),
    "wandb": ("wandb",),
    "reasoning-gym": ("reasoning_gym",),
    "retrieval": ("faiss",),
    "hub": ("transformers", "datasets"),
}


def require_extra(extra: str, user: str, where: str) -> None:
    """Raise SpecError if a package of an extra is not installed.

    extra  a key of EXTRAS
    user   what needs the extra, e.g. "the trainer verl"
    where  the option that asks for it, e.g. "trainer"
    """
    missing = [name for name in EXTRAS[extra] if find_spec(name) is None]
    if missing:
        what = f"{user} needs packages that are not installed: {', '.join(missing)}"
        raise SpecError(what, where=where, fix=f"pip install 'plat[{extra}]'")
