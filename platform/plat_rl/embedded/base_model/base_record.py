"""The recipe of a stand-in's base model, and the record of one in a folder, `base.json`. Imports no torch.

recipe hash     of shape, training settings, seed, vocabulary and versions of the tasks; bases are found by it
content hash    of the resulting bytes, whose last bits may differ between makes of CPU; results are compared only
                where the content is the same
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from plat.errors import CheckpointError, SpecError
from plat.plain_files import open_regular, read_json_value
from plat_envs.api import PICTURE_RENDERINGS, find_environment
from plat_envs.stand_in import VERSION as VOCABULARY
from plat_rl.run_config import ModelConfig

BUILD_VERSION = "4"  # of the supervised training code; raise it when the same recipe gives clearly other weights
# Version of the bases -> the tasks of their demonstrations. A new task needs a new version, so that no run changes.
VERSIONS = {
    "v2": ("sokoban", "frozenlake", "metamathqa", "countdown"),
    "v3": ("sokoban", "frozenlake", "metamathqa", "countdown", "searchqa", "webshop", "deepcoder", "bandit"),
    "vl1": ("sokoban", "frozenlake"),  # as text and as pictures
}


@dataclass(frozen=True)
class Corpus:
    """Demonstrations that a base model learns from: a task in a rendering, with options of its environment."""

    task: str
    rendering: str = "compact"
    options: Mapping[str, Any] = field(default_factory=dict)


# The puzzles and budgets of VAGEN's visual runs.
VAGEN: dict[str, dict[str, Any]] = {
    "sokoban": {"min_solution": 1, "max_solution": 5, "actions_per_turn": 3},
    "frozenlake": {"frozen": 0.8, "success_rate": 1.0, "actions_per_turn": 5},
}
OURS: dict[str, Any] = {}
# Versions whose corpora differ from their tasks in the compact rendering.
CORPORA = {
    "vl1": tuple(
        Corpus(task, rendering, options)
        for task in VAGEN
        for rendering in ("compact", "compact_image")
        for options in (OURS, VAGEN[task])
    )
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


def corpora_of(version: str) -> tuple[Corpus, ...]:
    """Return the demonstrations that bases of this version are trained on. Raises SpecError for an unknown version."""
    return CORPORA.get(version) or tuple(map(Corpus, tasks_of(version)))


def sees_pictures(version: str) -> bool:
    """Return True if bases of this version are trained on pictures. Raises SpecError for an unknown version."""
    return any(corpus.rendering in PICTURE_RENDERINGS for corpus in corpora_of(version))


def check_task_of_base(task: str, version: str) -> None:
    """Raise SpecError if bases of this version have seen no demonstration of a task, and those of another have.

    A task of a plug-in is in no version, and is trained from any base.
    """
    others = [other for other, tasks in VERSIONS.items() if task in tasks and other not in CORPORA]
    if others and task not in tasks_of(version):
        raise SpecError(
            f"base models of version {version} have seen no demonstration of {task}",
            where="model.base.version",
            fix=" ".join(filter(None, [f"model.base.version={others[-1]}", SETTINGS.get(others[-1])])),
        )


def recipe(model: ModelConfig) -> dict[str, Any]:
    """Return all that determines the weights of a stand-in's base model except the CPU, JSON-able."""
    content: dict[str, Any] = {
        "build": BUILD_VERSION,
        "vocabulary": VOCABULARY,
        "tasks": {task: find_environment(task).version for task in tasks_of(model.base.version)},
        "shape": asdict(model.shape),
        "base": asdict(model.base),
    }
    if model.base.version in CORPORA:
        content["corpora"] = [asdict(corpus) for corpus in corpora_of(model.base.version)]
    return content | ({"vision_width": model.vision_width} if model.vision_width else {})


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
    """Return the content hash of the files of a checkpoint's tokenizer, chat template and image processor.

    If the folder has none of these files, it is the hash of an empty list of files.
    """
    return content_hash((name, file_hash(folder / name)) for name in TOKENIZER_FILES if (folder / name).is_file())


def content_hash(files: Iterable[tuple[str, str]]) -> str:
    """Return the SHA-256 over (name, SHA-256) of files, in this order."""
    return hashlib.sha256("".join(f"{name} {digest}\n" for name, digest in files).encode()).hexdigest()


# Of a checkpoint in the Hugging Face format, as transformers reads them.
TOKENIZER_FILES = (
    "added_tokens.json", "chat_template.jinja", "chat_template.json", "merges.txt", "preprocessor_config.json",
    "special_tokens_map.json", "spiece.model", "tokenizer.json", "tokenizer.model", "tokenizer_config.json",
    "vocab.json", "vocab.txt",
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


# The record of a base model in a folder, `base.json`, and the check of its bytes. Imports no torch.
#
# A base is a folder in the Hugging Face format (`config.json`, `model.safetensors`, tokenizer) with this record.
# SHIPPED bases are part of the package; `cache/bases` of a home has those that were built there.

SHIPPED = Path(__file__).parents[2] / "bases"
# The folders of SHIPPED. A missing one is an error: a base built here would give its runs other ids.
SHIPPED_KEYS = tuple(
    """
    v2-0e227b5f0b1cbe15 v2-1a2f5129ce78306f v2-1fc8c75c3970693f v2-3445535d73aca77c v2-3c58416b4aaa23b1
    v2-3fb86a41dc31ee2b v2-473a0ee2c992b590 v2-49657c736efa07f4 v2-5710642f84f38d28 v2-610f75b068a4c062
    v2-6e5febac0c927238 v2-7252349fd0a64160 v2-85fd24ee349b6966 v2-acc63a5ced620b57 v2-b87fa0013e237f90
    v2-c5662b0cf8b98758 v2-cf4583f582333e90 v2-e1e8a3504760cdcb v3-1cbee58cf2900e13 v3-1fb9d2f1da1b8f75
    v3-45ca749e167376f0 v3-58b1e5c95191319c v3-59aeb9e5c8211eba v3-6fff19d55796b3e2 v3-8ae6a7fca0eefa5e
    v3-9e4f72cece46fcde v3-b38884b10b776e10 v3-d1a1e672f10edfb3 v3-fe7110a7e8b01596 v3-ff0bf3c3fe857eed
    vl1-6518d2065c6b2e75 vl1-79037b3e9b8df7b6
    """.split()
)
REINSTALL = "install plat again (`pip install --force-reinstall --no-deps`), or `git checkout` that file"
# Variables that choose how the CPU computes, and so the last bits of a base.
# AVX2 is the widest that nearly every x86 CPU has. (MKL_CBWR=COMPATIBLE would hold on more of them, at half the speed.)
NUMERICS = {"ATEN_CPU_CAPABILITY": "avx2", "MKL_CBWR": "AVX2"}
RECORD = "base.json"
FORMAT = 2  # from 2 on a record has a checksum of everything else in it


@dataclass(frozen=True)
class BaseRecord:
    """A base model on disk.

    sha256       content hash: over the weights and the shape, as `recipe.content_hash`
    files        name -> SHA-256 of every file of the folder but the record itself
    parameters   how many numbers the model has
    loss         cross-entropy per token (nats) at every 50th step of the supervised training, and at the last
    built_with   what may change the last bits: CPU, versions, environment variables
    """

    folder: Path
    model: str
    recipe: dict[str, Any]
    recipe_hash: str
    sha256: str
    files: dict[str, str]
    parameters: int
    loss: list[float] = field(default_factory=list)
    built_with: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum((self.folder / name).stat().st_size for name in [*self.files, RECORD])

    @property
    def corpora(self) -> list[dict[str, Any]]:
        """The demonstrations that it was trained on, if they are not those of its tasks as text; else []."""
        found: list[dict[str, Any]] = self.recipe.get("corpora", [])
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the record as it is written, without its folder."""
        content = {"format": FORMAT, **{name: value for name, value in asdict(self).items() if name != "folder"}}
        return {**content, "checksum": _checksum(content)}


def record_of(folder: Path, model: str, recipe: dict[str, Any], **facts: Any) -> BaseRecord:
    """Return (do not write) the record of the checkpoint in a folder; `facts` are the fields from `parameters` on."""
    files = {file.name: file_hash(file) for file in sorted(folder.iterdir()) if file.name != RECORD}
    return BaseRecord(folder, model, recipe, hash_of_recipe(recipe), checkpoint_hash(folder), files, **facts)


def read_base(folder: Path, recipe_hash: str) -> BaseRecord | None:
    """Return the base of this recipe in this folder, with every byte checked; None if there is no such folder.

    Raises CheckpointError for the first file that is missing or damaged, and for a record that is of another recipe,
    contradicts itself, or was written by a newer plat.
    """
    if not folder.is_dir():
        return None
    try:
        content = read_json_value(folder / RECORD)
        checksum = content.pop("checksum", None)
        if content["format"] > FORMAT:
            raise _damaged(folder / RECORD, "it was written by a newer plat")
        if content["format"] > 1 and checksum != _checksum(content):
            raise _damaged(folder / RECORD, "its checksum does not match")
        del content["format"]
        record = BaseRecord(folder=folder, **content)
        names = [name for name in record.files if name == "config.json" or name.endswith(".safetensors")]
        claimed = content_hash((name, record.files[name]) for name in names)
        consistent = record.recipe_hash == hash_of_recipe(record.recipe) == recipe_hash and record.sha256 == claimed
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise _damaged(folder / RECORD, "it is missing or cannot be read") from error
    if not consistent:
        raise _damaged(folder / RECORD, "its hashes do not match its recipe and its files")
    for name, digest in record.files.items():
        try:
            intact = file_hash(folder / name) == digest
        except OSError as error:
            raise _damaged(folder / name, error.strerror or "it cannot be read") from error
        if not intact:
            raise _damaged(folder / name, "its hash does not match")
    return record


def shipped_base(model: ModelConfig) -> BaseRecord | None:
    """Return the shipped base of this recipe; None if no base of it is shipped, or with `model.path`.

    Raises CheckpointError if it is damaged or its folder is missing. Building it again could give other bytes. Then the
    results would be taken for those of the shipped base, or the runs would get other ids.
    """
    if model.path is not None:
        return None
    folder = SHIPPED / base_key(model)
    try:
        record = read_base(folder, recipe_hash(model))
    except CheckpointError as error:
        error.what = f"a base model that is shipped with plat is damaged: {error.what}"
        error.fix = REINSTALL
        raise
    if record is None and folder.name in SHIPPED_KEYS:
        raise CheckpointError(
            f"a base model that is shipped with plat is missing: {model.name}", where=str(folder), fix=REINSTALL
        )
    return record


def base_identity(model: ModelConfig) -> dict[str, str]:
    """Return the part of a run's identity that names its base model: keys and hashes.

    This is the content hash of a shipped base, or of the checkpoint at `model.path` and of its tokenizer. The content
    of a base that must be built is not known yet: its recipe is named instead, with the word `local`. Raises SpecError
    if `model.path` has no checkpoint, CheckpointError if a shipped base is damaged.
    """
    if model.path is not None:
        folder = Path(model.path)
        return {"sha256": checkpoint_hash(folder), "tokenizer": tokenizer_hash(folder)}
    record = shipped_base(model)
    return {"sha256": record.sha256} if record else {"recipe": recipe_hash(model), "built": "local"}


def records_in(bases: Path) -> tuple[list[BaseRecord], list[CheckpointError]]:
    """Return the intact bases of a folder of bases, sorted by model and key, and the CheckpointErrors of the others."""
    whole, damaged = [], []
    for folder in sorted(bases.iterdir()) if bases.is_dir() else ():
        if not folder.is_dir() or folder.name.startswith("."):
            continue
        try:
            record = read_base(folder, folder.name.rpartition("-")[2])
        except CheckpointError as error:
            damaged.append(error)
        else:
            whole += [record] if record else []
    return sorted(whole, key=lambda record: (record.model, record.folder.name)), damaged


def _checksum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _damaged(file: Path, why: str) -> CheckpointError:
    fix = REINSTALL if file.is_relative_to(SHIPPED) else "remove its folder; it is then built again"
    return CheckpointError(f"{file.name}: {why}", where=str(file), fix=fix)
