"""From an experiment file to its matrix of runs, each with an identity.

An experiment file passes through these modules:

1. `yaml_reader` reads plain data, with the position of every value for messages;
2. `file`, `matrix_reader` and `matrix` check its structure and lay out axes and cells; `conflicts` refuses overrides
   that contradict each other;
3. `pieces` turns overrides into checked parts of a config, composed by Hydra in `conf` and checked by `schema`;
4. `sections` and `resolver` put the parts together into a config, and `identity` names it;
5. `runs` and `experiment` give the runs of the file.
"""

from plat.spec.experiment import Experiment, build_run, config_object, load_experiment, load_experiments
from plat.spec.runs import Run

__all__ = ["Experiment", "Run", "build_run", "config_object", "load_experiment", "load_experiments"]
