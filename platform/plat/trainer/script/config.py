"""The typed config of a run of a script. Any other key of an experiment file becomes an argument (`args`)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from plat.rl.config import number

TENSORBOARD = "tensorboard"  # the value of `script.metrics` for event files
MLFLOW = "mlflow"  # that for what the script logs with MLflow's client


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
    # more files that decide the result, such as data, as patterns below `folder`; changed ones make new runs
    files: list[str] = field(default_factory=list)
    packages: bool = False  # other versions of the packages that the script imports make new runs
    success: str = ""  # a metric from 0 to 1, if there is one, that progress and lists of runs show in percent
    # a file below PLAT_RUN_DIR with metrics, JSON lines or .csv, or `tensorboard`: event files below it, or
    # `mlflow`: what the script logs with MLflow's client;
    # "": lines of the output that are JSON, and `plat.log`
    metrics: str = ""
    step: str = ""  # the name of the step in lines of metrics; "": the first of step, iteration, epoch, global_step
    grace: float = number(30.0, minimum=0)  # from SIGTERM to SIGKILL when the run is asked to stop [seconds]
    timeout: float = number(0.0, minimum=0)  # after which the run fails; 0: no limit [seconds]
    stall: float = number(900.0, minimum=0)  # without output or new files, after which it fails; 0: no limit [seconds]
    threads: int = number(1, minimum=1)  # CPU threads of a run; the command gets OMP_NUM_THREADS [threads]
    gpus: int = number(0, minimum=0)  # GPUs of a run [GPUs]


@dataclass
class ScriptRunConfig:
    """Everything a run of a script is a function of, its files aside."""

    trainer: str = "script"
    seed: int = number(0, minimum=0)  # `{seed}`, and PLAT_SEED in the environment
    script: ScriptConfig = field(default_factory=ScriptConfig)
    args: dict[str, Any] = field(default_factory=dict, metadata={"other_keys": True})  # axes and keys without a place
