"""Call a function with the values of a run: `python -m plat.trainer.script.call module:function CONFIG`."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

from plat import script_log


def call(function: str, values: Mapping[str, object]) -> None:
    """Call `module:function` with these values by name, and log the numbers of a dict that it returns.

    `seed` is passed only to a function that takes it. The module is found from the current folder.
    """
    sys.path.insert(0, os.getcwd())
    module, _, name = function.partition(":")
    target = getattr(import_module(module), name)
    parameters = inspect.signature(target).parameters.values()
    takes_seed = any(each.name == "seed" or each.kind is each.VAR_KEYWORD for each in parameters)
    returned = target(**{key: value for key, value in values.items() if key != "seed" or takes_seed})
    if isinstance(returned, Mapping) and returned:
        script_log.log(script_log.last_step + 1, **returned)


if __name__ == "__main__":
    call(sys.argv[1], json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
