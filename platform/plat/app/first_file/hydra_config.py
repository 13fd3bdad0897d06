"""Read the options of a Hydra script from its config, which `--cfg job` prints as YAML."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from plat.app.first_file.asking import WITHOUT
from plat.app.first_file.flags import Flag
from plat.errors import SpecError
from plat.plain_files import parse_yaml

SILENT = f"let the script print nothing when it starts, or {WITHOUT}"
MISSING = "???"  # a value that the user must give
KEY = re.compile(r"[A-Za-z_][\w-]*(\.[A-Za-z_][\w-]*)*")
PLAIN = re.compile(r"[\w./:@%+-]+")  # Hydra reads such a text as it is


def flags_of_config(text: str) -> list[Flag]:
    """Return an option for each value of a config. Raises SpecError if the text is no YAML mapping.

    Lists and values that Hydra's overrides would need quotes for have no default, so that the script's own is used.
    """
    try:
        config = parse_yaml(text)
    except ValueError as error:
        raise SpecError(f"`--cfg job` printed no YAML: {error}", fix=SILENT) from None
    if not isinstance(config, dict):
        raise SpecError("`--cfg job` printed no config", fix=SILENT)
    return [
        Flag(
            name=key,
            opening=f"{key}=",
            default=_spelled(value),
            says=""
            if _spelled(value) is not None or value == MISSING
            else f"in the config: {json.dumps(value, default=str)}",
            has_several=isinstance(value, list),
            is_required=value == MISSING,
        )
        for key, value in _leaves(config, "")
        if KEY.fullmatch(key)
    ]


def _leaves(config: dict[Any, Any], above: str) -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


def _spelled(value: Any) -> str | None:
    """Return a value as an override spells it, None if it has none that is simple."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return value if isinstance(value, str) and PLAIN.fullmatch(value) and value != MISSING else None
