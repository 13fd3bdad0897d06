"""The specification of the trainer `script`."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from plat.errors import SpecError
from plat.extras import require_extra
from plat.suggest import nearest, suggest
from plat.trainer.api import Outcome, RunIO, Trainer
from plat.trainer.script import snapshot
from plat.trainer.script.command import (
    OUTPUT,
    PYTHONS,
    check_placeholders,
    flat,
    interpreter,
    is_read_anew,
    placeholders,
    search_path,
    words_of,
)
from plat.trainer.script.config import KINDS, TENSORBOARD, TO_FILL_IN, WANDB, ScriptConfig, ScriptRunConfig, sources_of
from plat.trainer.script.readers.patterns import compiled
from plat.trainer.script.source_files import LIMIT, followed_files, source_files
from plat.words.metric_names import SUCCESS

# What is doubtful about several runs of one script: they write the same file, or their seeds change nothing.


def _shared_outputs(script: ScriptConfig) -> list[str]:
    """Return the options of the command that name an output without a placeholder, such as `--out results.csv`."""
    words = [part for word in words_of(script) for part in (word.split("=", 1) if word.startswith("--") else [word])]
    pairs = [(name, text) for name, text in pairwise(words) if OUTPUT.fullmatch(name)]
    return [f"{name} {text}" for name, text in pairs if "{" not in text and not text.startswith("-")]


def _mentions_seed(config: ScriptRunConfig) -> bool:
    """Return True if the command passes the seed, or a followed file may read it; also if no file is followed."""
    if config.script.function or {"seed", "plat.seed", "config", "plat.config"} & set(placeholders(config.script)):
        return True
    files = [path for path in followed_files(config)[0] if path.stat().st_size < LIMIT]
    return not files or any(re.search(rb"PLAT_(SEED|CONFIG)", path.read_bytes()) for path in files)


def _shares_folder_of_hydra(config: ScriptRunConfig) -> bool:
    """Return True if the command is a Hydra app whose folder, outputs/DATE/TIME, two runs may have in common."""
    if config.script.own_folder or re.search(r"hydra\.(run|sweep)\.dir", str(config.script.command)):
        return False
    texts = [path.read_bytes() for path in followed_files(config)[0] if path.stat().st_size < LIMIT]
    is_app = any(re.search(rb"^@hydra\.main\b", text, re.MULTILINE) for text in texts)
    return is_app and not any(re.search(rb"^hydra:|^  dir:", text, re.MULTILINE) for text in texts)


GOALS = ("minimize", "maximize")
INTERPRETERS = ("python", "python3", "sh", "bash", "zsh", "Rscript", "julia", "perl", "node", "ruby")
SCRIPTS = (".py", ".sh", ".R", ".jl", ".pl", ".js", ".rb")


def _check_script(folder: Path, words: Sequence[str]) -> None:
    """Raise SpecError if the script of a command is missing, e.g. `trian.py` in `python trian.py`."""
    if len(words) < 2 or Path(words[0]).name not in INTERPRETERS:
        return
    script = words[1]
    if Path(script).suffix not in SCRIPTS or "{" in script or (folder / script).is_file():
        return
    there = sorted(file.name for file in (folder / script).parent.glob("*") if file.suffix in SCRIPTS)
    what = f"there is no file {script!r} in {folder}"
    raise SpecError(
        what, where="script.command", fix=suggest(script, there, "files") if there else "name one that exists"
    )


class ScriptTrainer(Trainer):
    """Runs a command of the user, and reads the metrics that it writes."""

    name = "script"
    version = "1.0"
    config_type = ScriptRunConfig
    operational_keys = (
        "script.folder",
        "script.python",
        "script.grace",
        "script.timeout",
        "script.stall",
        "script.metric",
        "script.goal",
        "script.own_folder",
        "script.snapshot",
        "script.success",
    )
    legacy: Mapping[str, Any] = {"script.patterns": [], "script.packages": False}
    preload = ("plat.trainer.script.train",)
    reuses_process = True
    cost_keys = ("script.command", "script.function")
    source_files = staticmethod(source_files)
    snapshots = snapshot

    def train(self, config: ScriptRunConfig, io: RunIO) -> Outcome:
        from plat.trainer.script.train import train

        return train(config, io)

    def validate(self, config: ScriptRunConfig) -> ScriptRunConfig:
        """Return the config. Raises SpecError for a wrong command or file of metrics, or values that do not fit."""
        script, where = config.script, "script.metrics"
        if not Path(script.folder).is_dir():
            raise SpecError(f"there is no folder {script.folder}", where="script.folder", fix="name one that exists")
        if script.goal not in GOALS:
            raise SpecError(f"{script.goal!r} is no goal", where="script.goal", fix=suggest(script.goal, GOALS))
        check_placeholders(config)
        for name, value in flat(config.args).items():
            if value == TO_FILL_IN:
                fix = "write its value into the experiment file"
                raise SpecError(f"{name} is still {TO_FILL_IN}", where=name, fix=fix)
        for name in sources_of(script):
            if "{" in name:
                fix = "name a file, and let the script write it: --out {plat.run_dir}/metrics.csv"
                raise SpecError(f"{name!r} has a placeholder", where=where, fix=fix)
            if name not in KINDS and not set(name) & set("./*") and nearest(name, KINDS):
                raise SpecError(f"no kind of metrics {name!r}", where=where, fix=suggest(name, KINDS, "kinds"))
        for metrics in map(Path, sources_of(script)):
            if metrics.is_absolute() or ".." in metrics.parts:
                fix = "name a file below PLAT_RUN_DIR, and let the script write it there: "
                fix += "--out {plat.run_dir}/metrics.csv"
                raise SpecError(f"{metrics} is outside of PLAT_RUN_DIR", where=where, fix=fix)
        for pattern in script.patterns:
            compiled(pattern)
        return config

    def resources(self, config: ScriptRunConfig) -> dict[str, int]:
        return {"threads": config.script.threads, "gpus": config.script.gpus}

    def fingerprint(self, config: ScriptRunConfig) -> dict[str, Any]:
        # an id of plat 0.4 stays valid only where the same config is still the same command
        facts: dict[str, Any] = {"command": 2} if is_read_anew(config) else {}
        return facts | ({"packages": dict(source_files(config).packages)} if config.script.packages else {})

    def check_machine(self, config: ScriptRunConfig) -> None:
        """Raise SpecError if this machine lacks the program that the command starts, or the reader of its metrics."""
        for extra in (TENSORBOARD, WANDB):
            if extra in sources_of(config.script):
                require_extra(extra, f"script.metrics: {extra}", "script.metrics")
        words = words_of(config.script)
        _check_script(Path(config.script.folder), words)
        program = words[0]
        if program in PYTHONS:
            program = interpreter(config.script)
            if not shutil.which(program):
                what, fix = f"there is no Python {program}", "name one that exists, relative to script.folder"
                raise SpecError(what, where="script.python", fix=fix)
        path = Path(config.script.folder) / program
        named = program if "/" not in program else str(path)
        if "{" in program or shutil.which(named, path=search_path(config.script)):
            return
        if path.is_file():
            fix = f"chmod +x {path}, or name its interpreter first: bash {program}"
            raise SpecError(f"{program} is not executable", where="script.command", fix=fix)
        what = f"there is no program {program!r} here"
        raise SpecError(what, where="script.command", fix="install it, or name its path")

    def doubts(self, config: ScriptRunConfig, seeds: int) -> list[str]:
        lines = [f"all runs write {text}: put {{plat.run_dir}}/ before it" for text in _shared_outputs(config.script)]
        if _shares_folder_of_hydra(config):
            lines.append(
                "runs that start in the same second share Hydra's folder: "
                "add hydra.run.dir={plat.run_dir} to the command"
            )
        if seeds > 1 and not _mentions_seed(config):
            lines.append(
                "the command passes no {seed}, and no file of the script reads PLAT_SEED: "
                "its runs differ by chance alone"
            )
        return lines

    def headline(self, config: Mapping[str, Any]) -> str:
        return str(config["script"]["success"] or SUCCESS)

    def iterations(self, config: Mapping[str, Any]) -> None:
        return None
