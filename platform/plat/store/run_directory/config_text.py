"""config.yaml as text, written and read by sections (its top-level keys), most of which the runs of a sweep share.

A section that was written or read before in this process costs a look-up instead of a pass through YAML, which makes
both about ten times faster for many runs. The text is the one that YAML gives for the whole config, and reading by
sections is trusted only where the result has the hash that is recorded for the run.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from plat.plain_files import parse_yaml

KEPT = 10_000  # sections of each kind that are remembered; one is some hundred bytes
_SECTION = re.compile(r"^(?=[A-Za-z0-9_])", re.MULTILINE)  # a line that begins with a plain key; no list, no comment


def to_yaml(config: Mapping[str, Any]) -> str:
    """The YAML of a config, every value in full."""
    return "".join(_section_text(pickle.dumps({name: value})) for name, value in config.items()) or _dump({})


def load_by_sections(text: str) -> dict[str, Any] | None:
    """What a config.yaml that `to_yaml` wrote holds; None, or something else, for many another file."""
    config: dict[str, Any] = {}
    try:
        for section in _SECTION.split(text):
            part = pickle.loads(_section_value(section)) if section else {}
            if not isinstance(part, dict) or part.keys() & config.keys():
                return None
            config |= part
    except ValueError:
        return None
    return config


@lru_cache(KEPT)
def _section_value(text: str) -> bytes:
    """The value of a section, pickled: each config gets objects of its own."""
    return pickle.dumps(parse_yaml(text))


@lru_cache(KEPT)
def _section_text(pickled: bytes) -> str:
    """The YAML of a section."""
    return _dump(pickle.loads(pickled))


def _dump(value: Any) -> str:
    import yaml

    return str(yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, default_flow_style=False))


@lru_cache(1)
def _dumper() -> Any:
    """A class of dumpers that write every value in full, also where parts of a config are one shared object."""
    import yaml

    class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Plain
