"""The typed config of a run of a script. Any other key of an experiment file becomes an argument (`args`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat.errors import SpecError
from plat.trainer.config_fields import number

# values of `script.metrics` that name no file
TEXT = "text"  # lines of the output that people read
TENSORBOARD = "tensorboard"
MLFLOW = "mlflow"
WANDB = "wandb"
TRACKIO = "trackio"
KINDS = (TEXT, TENSORBOARD, MLFLOW, WANDB, TRACKIO)
TO_FILL_IN = "FILL_IN"  # what `plat init` writes for a value that it cannot know


@dataclass
class ScriptConfig:
    """The command and what plat must know about it."""

    command: Any = ""  # a text or a list of words; `{lr}` is the value of the axis or key `lr`
    # in place of a command: module:function, called with all values by name; a returned dict of numbers is logged
    function: str = ""
    # the Python that `python` and `{plat.python}` name: a path relative to `folder`, or a program; "": that of plat
    python: str = ""
    folder: str = field(default=".", metadata={"folder": True})  # the command runs here; relative to the file's folder
    own_folder: bool = False  # the command runs in PLAT_RUN_DIR, with links to the files that it names
    # more files that decide the result, such as data, as patterns below `folder`; changed ones make new runs
    files: list[str] = field(default_factory=list)
    snapshot: bool = (
        True  # runs execute copies of these files, made when the sweep starts; False: the files as they are
    )
    packages: bool = False  # other versions of the packages that the script imports make new runs
    metric: str = ""  # the metric that says how well a run did; `goal`: minimize or maximize
    goal: str = "minimize"
    success: str = ""  # a metric from 0 to 1, if there is one, that progress and lists of runs show in percent
    # `text`: lines of the output such as `step 1: loss 0.5`; `tensorboard`, `wandb`, `trackio`: their files below
    # PLAT_RUN_DIR; `mlflow`: what MLflow's client logs; a file below PLAT_RUN_DIR or a pattern (`*/metrics.csv`), with
    # JSON or CSV; or a list of these. "": lines of the output that are JSON. `plat.log` is always read
    metrics: Any = ""
    # lines of the output with metrics: 'step {step}: train loss {train_loss}'
    patterns: list[str] = field(default_factory=list)
    step: str = ""  # the name of the step; "": the first of step, iteration, epoch, global_step that there is
    grace: float = number(30.0, minimum=0)  # from SIGTERM to SIGKILL when the run is asked to stop [seconds]
    timeout: float = number(0.0, minimum=0)  # after which the run fails; 0: no limit [seconds]
    stall: float = number(900.0, minimum=0)  # without output or new files, after which it fails; 0: no limit [seconds]
    threads: int = number(1, minimum=1)  # CPU threads of a run; the command gets OMP_NUM_THREADS [threads]
    gpus: int = number(0, minimum=0)  # GPUs of a run [GPUs]


def sources_of(script: ScriptConfig) -> list[str]:
    """Return the sources of metrics besides `plat.log`. Raises SpecError if `script.metrics` names none."""
    named = script.metrics if isinstance(script.metrics, list) else [script.metrics] if script.metrics else []
    wrong = next((name for name in named if not isinstance(name, str) or not name), None)
    if wrong is not None or (script.metrics and not named):
        fix = f"name a file below PLAT_RUN_DIR, or one of {', '.join(KINDS)}, or a list of several"
        raise SpecError(f"{script.metrics!r} is no source of metrics", where="script.metrics", fix=fix)
    return named


@dataclass
class ScriptRunConfig:
    """Everything a run of a script is a function of, its files aside."""

    trainer: str = "script"
    seed: int = number(0, minimum=0)  # `{seed}`, and PLAT_SEED in the environment
    script: ScriptConfig = field(default_factory=ScriptConfig)
    args: dict[str, Any] = field(default_factory=dict, metadata={"other_keys": True})  # axes and keys without a place
