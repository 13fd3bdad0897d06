"""Experiment file -> matrix -> runs, each with an identity.

The path of an experiment file: `yaml_reader` (data with positions) -> `file`, `matrix_reader` and `matrix` (structure,
axes, cells) -> `pieces` (overrides composed by Hydra in `conf`, checked by `schema`) -> `sections` and `resolver`
(config and `identity`) -> `runs` -> `experiment`.
"""

from plat.spec.experiment import Experiment, build_run, config_object, load_experiment, load_experiments
from plat.spec.runs import Run

__all__ = ["Experiment", "Run", "build_run", "config_object", "load_experiment", "load_experiments"]
