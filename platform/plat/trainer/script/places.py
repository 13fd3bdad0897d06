"""The folders of a run of a script, and the environment in which its command runs."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from plat.trainer.script.command import arguments, filled_variables, search_path
from plat.trainer.script.config import ScriptRunConfig


def placed(config: ScriptRunConfig, files: Path, is_resumed: bool = False) -> dict[str, str]:
    """Write the run's config into its folder, and return the values of `command.OF_THE_RUN` there.

    is_resumed   whether the folder of checkpoints has those of an earlier attempt
    """
    places = {name: str(files / below) for name, below in (("run_dir", ""), ("checkpoint_dir", "checkpoints"))}
    places["config"] = str(files / "config.json")
    Path(places["config"]).write_text(json.dumps(arguments(config), indent=1) + "\n")
    return {**places, "checkpoint": places["checkpoint_dir"] if is_resumed else ""}


def environment(config: ScriptRunConfig, places: Mapping[str, str]) -> dict[str, str | None]:
    """Return the variables that a command gets, on top of those of this process."""
    return {
        "PATH": search_path(config.script),
        "OMP_NUM_THREADS": str(config.script.threads),
        "PYTHONUNBUFFERED": "1",  # lines of the output arrive when they are printed
        **filled_variables(config, places),
        "PLAT_RUN_DIR": places["run_dir"],
        "PLAT_CHECKPOINT_DIR": places["checkpoint_dir"],
        "PLAT_CONFIG": places["config"],
        "PLAT_SEED": str(config.seed),
    }


def searched(variables: Mapping[str, str | None], first: str) -> str:
    """Return PYTHONPATH of a command with these variables, with a folder before it."""
    path = variables.get("PYTHONPATH") or os.environ.get("PYTHONPATH")
    return os.pathsep.join(filter(None, [os.path.abspath(first), path]))
