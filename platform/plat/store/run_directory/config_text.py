"""Write and read config.yaml by sections (its top-level keys) with a cache, about ten times faster for many runs.

The runs of a sweep share most sections. The text is the one that YAML gives for the whole config. Callers must check
the result of reading against the hash recorded for the run.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from plat.plain_files import parse_yaml

KEPT = 10_000  # cached sections of each kind, some hundred bytes each
_SECTION = re.compile(r"^(?=[A-Za-z0-9_])", re.MULTILINE)  # a line that begins with a plain key; no list, no comment


def to_yaml(config: Mapping[str, Any]) -> str:
    """Return the YAML of a config, every value in full (without aliases)."""
    return "".join(_section_text(pickle.dumps({name: value})) for name, value in config.items()) or _dump({})


def load_by_sections(text: str) -> dict[str, Any] | None:
    """Return the config in a text that `to_yaml` wrote. For other texts the result may be None or wrong."""
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
    """Return the value of a section, pickled so that configs share no objects."""
    return pickle.dumps(parse_yaml(text))


@lru_cache(KEPT)
def _section_text(pickled: bytes) -> str:
    return _dump(pickle.loads(pickled))


def _dump(value: Any) -> str:
    import yaml

    return str(yaml.dump(value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, default_flow_style=False))


@lru_cache(1)
def _dumper() -> Any:
    """Return a class of dumpers that write no aliases, even if parts of a config are one shared object."""
    import yaml

    class Plain(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        def ignore_aliases(self, data: Any) -> bool:
            return True

    return Plain
