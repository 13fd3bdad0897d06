"""The recipe of a stand-in's base model, and the hashes by which bases are told apart (light: imports no torch).

One base model per size serves all tasks, as with a real LLM. Two hashes belong to it:

    recipe hash     of everything that is asked for: shape, training settings, seed, vocabulary, versions of the tasks.
                    Bases are found by it.
    content hash    of the bytes that came out. The same recipe gives other last bits on another make of CPU, so two
                    bases of one recipe may differ; results are compared only where the content is the same.
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
from plat.trainer.config import ModelConfig
from plat_envs.api import find_environment
from plat_envs.vocabulary import VERSION as VOCABULARY

BUILD_VERSION = "4"  # of the supervised training code; raise it when the same recipe gives clearly other weights
# The tasks whose demonstrations a version of the bases has seen. A task added later makes a new version here, so that
# it changes no base, and no run, of an earlier one.
VERSIONS = {"v2": ("sokoban", "frozenlake", "metamathqa", "countdown")}


def tasks_of(version: str) -> tuple[str, ...]:
    """The tasks that bases of this version are trained on; SpecError when there is no such version."""
    if version not in VERSIONS:
        raise SpecError(
            f"there is no base version {version!r}", where="model.base.version", mend=f"one of: {', '.join(VERSIONS)}"
        )
    return VERSIONS[version]


def recipe(model: ModelConfig) -> dict[str, Any]:
    """Everything the weights of a stand-in's base model are a function of, except the CPU, as JSON-able data."""
    return {
        "build": BUILD_VERSION,
        "vocabulary": VOCABULARY,
        "tasks": {task: find_environment(task).version for task in tasks_of(model.base.version)},
        "shape": asdict(model.shape),
        "base": asdict(model.base),
    }


def recipe_hash(model: ModelConfig) -> str:
    """16 hexadecimal digits of the SHA-256 of the recipe."""
    return hash_of_recipe(recipe(model))


def hash_of_recipe(content: dict[str, Any]) -> str:
    """The recipe hash of a recipe that was written down."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def base_key(model: ModelConfig) -> str:
    """What the folder of this recipe's base is called, wherever bases are kept: `v2-5c0f...`."""
    return f"{model.base.version}-{recipe_hash(model)}"


def built_bases(cache: Path) -> Path:
    """The folder of the bases that are built on this machine, each under its `base_key`."""
    return cache / "bases"


def checkpoint_hash(folder: Path) -> str:
    """The content hash of a local checkpoint; SpecError when there is none. Files that did not change are read once."""
    files = sorted(file for file in folder.glob("*.safetensors") if file.is_file())
    if not (folder / "config.json").is_file() or not files:
        raise SpecError(
            f"no Qwen2 checkpoint at {folder}",
            where="model.path",
            mend="name a folder with config.json and *.safetensors",
        )
    return content_hash((file.name, file_hash(file)) for file in [folder / "config.json", *files])


def tokenizer_hash(folder: Path) -> str:
    """The content hash of a checkpoint's tokenizer and chat template; of a folder without any, that of nothing."""
    return content_hash((name, file_hash(folder / name)) for name in TOKENIZER_FILES if (folder / name).is_file())


def content_hash(files: Iterable[tuple[str, str]]) -> str:
    """The SHA-256 over (name, SHA-256) of files in this order, such as config.json and every safetensors file."""
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in files).encode()).hexdigest()


# Of a checkpoint in the Hugging Face format, as transformers reads them.
TOKENIZER_FILES = (
    "added_tokens.json", "chat_template.jinja", "chat_template.json", "merges.txt", "special_tokens_map.json",
    "spiece.model", "tokenizer.json", "tokenizer.model", "tokenizer_config.json", "vocab.json", "vocab.txt",
)  # fmt: skip
_hashes: dict[tuple[str, int, int], str] = {}


def file_hash(file: Path) -> str:
    """The SHA-256 of a file, remembered for as long as its size and time of change stay the same."""
    stat = file.stat()
    key = (str(file.absolute()), stat.st_mtime_ns, stat.st_size)
    if key not in _hashes:
        with open_regular(file) as stream:
            _hashes[key] = hashlib.file_digest(stream, "sha256").hexdigest()
    return _hashes[key]
