"""`python with_hydra.py --multirun hydra/launcher=submitit_local seed=range(0,JOBS)`: a function under Hydra."""

from __future__ import annotations

from dataclasses import dataclass

import hydra
from hydra.core.config_store import ConfigStore


@dataclass
class Config:
    seed: int = 0


ConfigStore.instance().store(name="config", node=Config)


@hydra.main(version_base=None, config_name="config")
def noop(config: Config) -> float:
    return 1.0


if __name__ == "__main__":
    noop()
