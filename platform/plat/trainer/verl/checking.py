"""A run's verl configuration, composed and checked by verl itself before anything is submitted."""

from __future__ import annotations

import json

from plat.trainer.verl.config import VerlRunConfig
from plat.trainer.verl.models import is_stand_in, paper_model
from plat.trainer.verl.overrides import check, compose, overrides_of

_CHECKED: set[str] = set()  # what was composed and accepted in this process


def check_config(config: VerlRunConfig) -> None:
    """SpecError where verl does not take this run's settings. Runs that differ in their seed are checked once."""
    local = is_stand_in(config) or config.model.path is not None
    model = config.model.path or "a/stand-in" if local else paper_model(config).hub
    settings = {name: value for name, value in overrides_of(config, model).items() if not name.endswith(".seed")}
    key = json.dumps([settings, config.verl.overrides])
    if key not in _CHECKED:
        check(compose(config, model))
        _CHECKED.add(key)
