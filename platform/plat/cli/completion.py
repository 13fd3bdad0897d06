"""What the Tab key offers for names of runs and for keys of overrides; Typer completes all else, and asks the shell."""

from __future__ import annotations

import contextlib
import re
from glob import escape, glob
from pathlib import Path

from typer import Context

SHORT = 8  # characters of a run's id, as lists show it
MOST = 2000  # runs whose names are read
LARGEST = 1 << 20  # bytes of an experiment file


def runs(context: Context, incomplete: str) -> list[str]:
    """Return the names of runs of the home, and the short ids if something was typed; [] if they cannot be read."""
    from plat.store.home import Home
    from plat.store.many_runs import descriptions

    with contextlib.suppress(Exception):
        home = Home.find(context.params.get("home"))
        ids = home.run_ids()
        names = [run.name for run in descriptions(home, ids[:MOST]).values()]
        return names + [run_id[:SHORT] for run_id in ids if incomplete]
    return []


def keys(context: Context, incomplete: str) -> list[str]:
    """Return the keys of the experiment files and of the trainer on the line; [] if what was typed begins a file."""
    from plat.plain_files import parse_yaml, read_text
    from plat.spec.composition.conf import conf_of
    from plat.spec.composition.schema import schema_of
    from plat.trainer.finding import default_trainer, find_trainer

    if not incomplete or {"=", "/"} & {*incomplete} or glob(escape(incomplete) + "*"):
        return []
    with contextlib.suppress(Exception):
        words = [word for value in context.params.values() if isinstance(value, list | tuple) for word in value]
        files = [parse_yaml(read_text(Path(word), LARGEST)) for word in words if word.endswith((".yaml", ".yml"))]
        sections = [file.get(name, {}) for file in files for name in ("base", "matrix")]
        named = re.findall(r"\btrainer ?= ?(\S+)", " ".join(words))  # bash makes three words of trainer=NAME
        named += [section["trainer"] for section in sections if "trainer" in section]
        known = [key for section in sections for key in section]
        spec = find_trainer((named or [context.params.get("trainer") or default_trainer(known) or "script"])[0])
        known += [*(conf_of(spec.conf).options if spec.conf else ()), *schema_of(spec.config_type).leaves]
        end = "" if context.info_name == "options" else "="
        return [f"{start}{key}{end}" for start in ("", "matrix.") for key in dict.fromkeys(known)]
    return []


def runs_or_keys(context: Context, incomplete: str) -> list[str]:
    """Return what `runs` returns and, if none of these begins so, what `keys` returns."""
    found = [name for name in runs(context, incomplete) if name.startswith(incomplete)]
    return found or keys(context, incomplete)
