"""Models and datasets of the Hugging Face hub: whether they are on this machine, and how to get them."""

from __future__ import annotations

import os
from importlib.util import find_spec
from pathlib import Path

from plat_envs.api import Need


def model_need(name: str, gigabytes: float) -> Need:
    """Return the checkpoint `name` of the hub, of this size on disk, as something that runs need."""
    what = f"the checkpoint {name} of the hub ({gigabytes:.0f} GB of disk)"
    return Need(what) if _is_cached("models", name) else Need(what, "not on this machine yet", f"hf download {name}")


def dataset_need(name: str) -> Need:
    """Return the dataset `name` of the hub as something that runs need."""
    what = f"the dataset {name} of the hub"
    if find_spec("datasets") is None:
        return Need(what, "the package datasets is not installed", "pip install 'plat[hub]'")
    if _is_cached("datasets", name):
        return Need(what)
    fix = "the first run downloads it; without a network, use task.env.data=file"
    return Need(what, "not on this machine yet", fix)


def _is_cached(kind: str, name: str) -> bool:
    root = Path(os.environ.get("HF_HOME") or Path("~/.cache/huggingface").expanduser())
    hub = Path(os.environ.get("HF_HUB_CACHE") or root / "hub")
    made = Path(os.environ.get("HF_DATASETS_CACHE") or root / "datasets") / name.replace("/", "___")
    return (hub / f"{kind}--{name.replace('/', '--')}").exists() or (kind == "datasets" and made.exists())
