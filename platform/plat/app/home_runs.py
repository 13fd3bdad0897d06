"""The home and the runs that a command line names, and commands that continue them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from plat.errors import HomeError, PlatError, SpecError
from plat.store.home import Home
from plat.store.run_directory.paths import RunPaths
from plat.store.run_directory.run_files import load_meta
from plat.suggest import nearest

MLFLOW_ID = re.compile("[0-9a-f]{32}")
MOST_NAMED = 8  # runs in a message
UNKNOWN = "plat run, with the options that it was started with"


def home_option(home: Home) -> str:
    """Return ` --home DIR` if a command without it would use another home, else ""."""
    return "" if Home.find().root == home.root else f" --home {shlex.quote(str(home.root))}"


def home_to_read(explicit: str | None) -> Home:
    """Return the home that a verb shows; HomeError if --home names a missing one. Without --home, it may be missing."""
    home = Home.find(explicit).checked()
    if explicit is not None and not home.exists():
        fix = "name the one that `plat sweep` made, with --home DIR; without it, PLAT_HOME or ./plat-home is used"
        raise HomeError("there is no home here", where=str(home.root), fix=fix)
    return home


def find_run(home: Home, text: str) -> RunPaths:
    """Return the run with this name, id, beginning of an id, directory, or id in MLflow.

    Raises SpecError if there is none, or several, and StoreError if a store that is asked for an id of MLflow cannot be
    read.
    """
    path = Path(text)
    if path.is_dir() and (path / "meta.json").exists():
        return RunPaths(path.absolute())
    if path.is_dir():
        fix = "name a run by its name or the beginning of its id; `plat status` lists those of a home"
        raise SpecError("this directory is not a run's", where=str(path.absolute()), fix=fix)
    if path.is_file():
        raise SpecError("this is a file, not a run", where=text, fix=f"`plat runs {text}` lists the runs that it names")
    beginning = text.rsplit("-", 1)[-1]  # a name ends in the first half of the id
    hits = home.run_ids(beginning) if beginning else []
    if len(hits) == 1:
        return home.run(hits[0])
    if hits:
        instead = f"one of: {', '.join(hits[:MOST_NAMED])}"
        raise SpecError(f"{text!r} is the beginning of {len(hits)} runs", where=str(home.runs), fix=instead)
    if MLFLOW_ID.fullmatch(text) and home.root.exists():
        from plat.store.mlflow.mlflow_client import plat_id

        found = plat_id(home.store_uri(), text)
        if found is not None and home.run(found).root.exists():
            return home.run(found)
    names = [name for run_id in home.run_ids() if (name := run_name(home.run(run_id)))]
    meant = [name for name in names if name.startswith(text)][:MOST_NAMED] or [nearest(text, names, cutoff=0.3) or ""]
    fix = f"did you mean {', '.join(meant)}?" if meant[0] else "`plat status` lists the runs of this home"
    raise SpecError(f"no run {text!r}", where=str(home.runs), fix=fix)


def run_name(paths: RunPaths) -> str:
    """Return the readable name of a run, or its id when the directory has none."""
    return (load_meta(paths) or {}).get("name") or paths.id


def command_of(home: Home, meta: Mapping[str, Any]) -> str:
    """Return the `plat run KEY=VALUE...` command of the run with this meta.json.

    Returns the sentence UNKNOWN if the options in meta.json are invalid or give another run id. This happens to a run
    that was started with a list as an option, because meta.json does not record lists among the options.
    """
    from plat.spec.expansion.experiment import build_run

    axes = meta.get("axes")
    options = [f"{key}={_spelled(value)}" for key, value in axes.items()] if isinstance(axes, dict) else []
    try:
        if build_run(options).id != meta.get("id"):
            return UNKNOWN
    except PlatError:
        return UNKNOWN
    return shlex.join(["plat", "run", *options]) + home_option(home)


def _spelled(value: Any) -> str:
    """Return a value as the command line spells it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
