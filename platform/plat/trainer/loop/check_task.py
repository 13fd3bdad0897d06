"""What every built-in trainer checks of a run's task before it is submitted."""

from __future__ import annotations

from plat.trainer.config import RunConfig
from plat.trainer.loop.enough_problems import check_instances
from plat.trainer.loop.rehearsal import rehearse


def check_task(config: RunConfig) -> None:
    """SpecError where the environment breaks its contract, or has too few problems."""
    rehearse(config)
    check_instances(config)
