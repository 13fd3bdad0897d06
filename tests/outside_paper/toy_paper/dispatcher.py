"""A dispatcher of another package: runs on this machine, one at a time, in the dispatcher that plat has for it."""

from plat.dispatch.dispatcher import Dispatcher
from plat.dispatch.dispatcher_spec import DispatcherSpec, Setting
from plat.dispatch.local.local_dispatcher import LocalDispatcher


class OneAtATime(LocalDispatcher):
    farewell = "stopping the queue of one"


def open_dispatcher(setting: Setting) -> Dispatcher:
    return OneAtATime(setting.home, setting.create, slots=1, steal=setting.steal, stall_after=setting.stall_after)


SPEC = DispatcherSpec(open_dispatcher)
