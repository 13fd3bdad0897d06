"""A dispatcher of another package: runs on this machine, one at a time, in the dispatcher that plat has for it."""

from dataclasses import replace

from plat.dispatch.local.local_dispatcher import LocalDispatcher
from plat.dispatch.setting import Setting


class OneAtATime(LocalDispatcher):
    farewell = "stopping the queue of one"

    def __init__(self, setting: Setting) -> None:
        super().__init__(replace(setting, jobs=1))
