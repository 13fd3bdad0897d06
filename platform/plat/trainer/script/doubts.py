"""What is doubtful about several runs of one script: they write the same file, or their seeds change nothing."""

from __future__ import annotations

import re
from itertools import pairwise

from plat.trainer.script.command import OUTPUT, placeholders, words_of
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig
from plat.trainer.script.source_files import LIMIT, followed_files


def doubts(config: ScriptRunConfig, seeds: int) -> list[str]:
    """Return warnings about the runs of one script. `config` is the first run's, `seeds` the number of their seeds."""
    lines = [f"all runs write {text}: put {{plat.run_dir}}/ before it" for text in _shared_outputs(config.script)]
    if _shares_folder_of_hydra(config):
        lines.append(
            "runs that start in the same second share Hydra's folder: add hydra.run.dir={plat.run_dir} to the command"
        )
    if seeds > 1 and not _mentions_seed(config):
        lines.append(
            "the command passes no {seed}, and no file of the script reads PLAT_SEED: its runs differ by chance alone"
        )
    return lines


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
