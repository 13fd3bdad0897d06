"""The recipe of a stand-in's base model and its hash (light: imports no torch).

One base model per size serves all tasks, as with a real LLM. Everything that changes its weights is in the recipe.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.trainer.config import ModelConfig
from plat_envs.api import find_environment
from plat_envs.vocabulary import VERSION

BUILD_VERSION = "2"  # of the supervised training code; bump it when the same recipe gives other weights
TASKS = ("sokoban", "frozenlake", "metamathqa", "countdown")  # the tasks of base version v1


def recipe(model: ModelConfig) -> dict[str, Any]:
    """Everything the weights of the base model are a function of, as JSON-able data."""
    if model.path is not None:
        return {"path_sha256": checkpoint_hash(Path(model.path))}
    return {
        "build": BUILD_VERSION,
        "vocabulary": VERSION,
        "tasks": {task: find_environment(task).version for task in TASKS},
        "shape": asdict(model.shape),
        "base": asdict(model.base),
    }


def recipe_hash(model: ModelConfig) -> str:
    """16 hexadecimal digits of the SHA-256 of the recipe."""
    text = json.dumps(recipe(model), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def base_folder(cache: Path, model: ModelConfig) -> Path:
    """Where the base model of this recipe is kept."""
    return cache / "bases" / recipe_hash(model)


_hashes: dict[tuple[str, float, int], str] = {}


def checkpoint_hash(folder: Path) -> str:
    """SHA-256 over config.json and every safetensors file of a local checkpoint; SpecError when there is none."""
    files = sorted(folder.glob("*.safetensors"))
    if not (folder / "config.json").is_file() or not files:
        raise SpecError(
            f"no Qwen2 checkpoint at {folder}",
            where="model.path",
            mend="name a folder with config.json and *.safetensors",
        )
    digest = hashlib.sha256()
    for file in [folder / "config.json", *files]:
        stat = file.stat()
        key = (str(file.absolute()), stat.st_mtime, stat.st_size)
        if key not in _hashes:
            with file.open("rb") as stream:
                _hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
        digest.update(f"{file.name} {_hashes[key]}\n".encode())
    return digest.hexdigest()
