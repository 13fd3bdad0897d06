"""The recipe of a stand-in's base model and the hashes of bases. Imports no torch.

recipe hash     of shape, training settings, seed, vocabulary and versions of the tasks; bases are found by it
content hash    of the resulting bytes, whose last bits may differ between makes of CPU; results are compared only
                where the content is the same
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.plain_files import open_regular
from plat_envs.api import find_environment
from plat_envs.stand_in import VERSION as VOCABULARY
from plat_rl.run_config import ModelConfig

BUILD_VERSION = "4"  # of the supervised training code; raise it when the same recipe gives clearly other weights
# Version of the bases -> the tasks of their demonstrations. A new task needs a new version, so that no run changes.
VERSIONS = {
    "v2": ("sokoban", "frozenlake", "metamathqa", "countdown"),
    "v3": ("sokoban", "frozenlake", "metamathqa", "countdown", "searchqa", "webshop", "deepcoder", "bandit"),
}
# Version -> the settings of its shipped bases, where they differ from the defaults.
SETTINGS = {"v3": "model.base.batch=112 model.base.steps=3000"}


def tasks_of(version: str) -> tuple[str, ...]:
    """Return the tasks that bases of this version are trained on. Raises SpecError for an unknown version."""
    if version not in VERSIONS:
        raise SpecError(
            f"there is no base version {version!r}", where="model.base.version", fix=f"one of: {', '.join(VERSIONS)}"
        )
    return VERSIONS[version]


def check_task_of_base(task: str, version: str) -> None:
    """Raise SpecError if bases of this version have seen no demonstration of a task, and those of another have.

    A task of a plug-in is in no version, and is trained from any base.
    """
    others = [other for other, tasks in VERSIONS.items() if task in tasks]
    if others and task not in tasks_of(version):
        raise SpecError(
            f"base models of version {version} have seen no demonstration of {task}",
            where="model.base.version",
            fix=" ".join(filter(None, [f"model.base.version={others[-1]}", SETTINGS.get(others[-1])])),
        )


def recipe(model: ModelConfig) -> dict[str, Any]:
    """Return all that determines the weights of a stand-in's base model except the CPU, JSON-able."""
    return {
        "build": BUILD_VERSION,
        "vocabulary": VOCABULARY,
        "tasks": {task: find_environment(task).version for task in tasks_of(model.base.version)},
        "shape": asdict(model.shape),
        "base": asdict(model.base),
    }


def recipe_hash(model: ModelConfig) -> str:
    """Return 16 hexadecimal digits of the SHA-256 of the recipe."""
    return hash_of_recipe(recipe(model))


def hash_of_recipe(content: dict[str, Any]) -> str:
    """Return the recipe hash (16 hexadecimal digits) of a recorded recipe."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def base_key(model: ModelConfig) -> str:
    """Return the folder name of this recipe's base: `v2-5c0f...`."""
    return f"{model.base.version}-{recipe_hash(model)}"


def built_bases(cache: Path) -> Path:
    """Return the folder of the bases that are built on this machine, each under its `base_key`."""
    return cache / "bases"


def checkpoint_hash(folder: Path) -> str:
    """Return the content hash of a local checkpoint. Raises SpecError if there is none."""
    files = sorted(file for file in folder.glob("*.safetensors") if file.is_file())
    if not (folder / "config.json").is_file() or not files:
        raise SpecError(
            f"no Qwen2 checkpoint at {folder}",
            where="model.path",
            fix="name a folder with config.json and *.safetensors",
        )
    return content_hash((file.name, file_hash(file)) for file in [folder / "config.json", *files])


def tokenizer_hash(folder: Path) -> str:
    """Return the content hash of the files of a checkpoint's tokenizer and chat template.

    If the folder has none of these files, it is the hash of an empty list of files.
    """
    return content_hash((name, file_hash(folder / name)) for name in TOKENIZER_FILES if (folder / name).is_file())


def content_hash(files: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 over (name, SHA-256) of files, in this order."""
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in files).encode()).hexdigest()


# Of a checkpoint in the Hugging Face format, as transformers reads them.
TOKENIZER_FILES = (
    "added_tokens.json", "chat_template.jinja", "chat_template.json", "merges.txt", "special_tokens_map.json",
    "spiece.model", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt",
)  # fmt: skip
_hashes: dict[tuple[str, int, int], str] = {}


def file_hash(file: Path) -> str:
    """Return the SHA-256 of a file, cached while its size and time of change stay the same."""
    stat = file.stat()
    key = (str(file.absolute()), stat.st_mtime_ns, stat.st_size)
    if key not in _hashes:
        with open_regular(file) as stream:
            _hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _hashes[key]
