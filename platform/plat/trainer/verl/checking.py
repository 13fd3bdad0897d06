"""A run's verl configuration, composed and checked by verl itself before anything is submitted."""

from __future__ import annotations

import json

from plat.trainer.loop.check_task import check_task
from plat.trainer.verl.composition import check, compose
from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.overrides import overrides_of

MODEL = "any/model"  # what is checked does not depend on the checkpoint, which may not be on this machine
_CHECKED: set[str] = set()  # what was composed and accepted in this process


def check_config(config: VerlRunConfig) -> None:
    """SpecError where verl does not take this run's settings, or its task has too few problems for its evaluations.

    Settings that differ in the seed and the model alone are composed once.
    """
    check_task(config)
    settings = {name: value for name, value in overrides_of(config, MODEL).items() if not name.endswith(".seed")}
    key = json.dumps([settings, config.verl.overrides])
    if key not in _CHECKED:
        check(compose(config, MODEL))
        _CHECKED.add(key)
