"""Name the keys that an override can set: those of the trainer, and those of the experiment file on the line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, get_type_hints

from plat.plain_files import parse_yaml, read_text
from plat.trainer.finding import find_trainer

LARGEST = 1 << 20  # bytes of an experiment file
USUAL = "embedded"  # the trainer of a file or a run that names none
_TRAINER = re.compile(r"trainer=(.+)")


def keys(words: Sequence[str], beginning: str) -> list[str]:
    """Return the keys, and `matrix.KEY` for each, that begin so, for the files and the trainer among these words."""
    files = [_content(Path(word)) for word in words if word.endswith((".yaml", ".yml"))]
    of_files = [key for content in files for key in (*content.get("base", {}), *content.get("matrix", {}))]
    named = [match[1] for word in words if (match := _TRAINER.fullmatch(word))]
    named += [content["base"]["trainer"] for content in files if "trainer" in content.get("base", {})]
    found = dict.fromkeys([*of_files, *_keys_of(named[0] if named else USUAL)])
    return [name for key in found for name in (str(key), f"matrix.{key}") if name.startswith(beginning)]


def _content(file: Path) -> dict[str, Any]:
    """Return the sections of an experiment file that are mappings."""
    try:
        data = parse_yaml(read_text(file, LARGEST))
    except (OSError, ValueError):
        return {}
    return {key: value for key, value in data.items() if isinstance(value, dict)} if isinstance(data, dict) else {}


def _keys_of(trainer: str) -> list[str]:
    """Return the config groups and the keys of a trainer."""
    spec = find_trainer(trainer)
    folder = Path(__file__).parents[2] / "conf"
    groups = [path.name for path in folder.iterdir() if path.is_dir()] if spec.conf == "plat.conf" else []
    return [*sorted(name for name in groups if name.isidentifier() and name[0] != "_"), *_fields(spec.config_type, "")]


def _fields(kind: type, above: str) -> Iterator[str]:
    """Yield the dotted keys of a typed config, without OmegaConf, whose import takes longer than all else here."""
    hints = get_type_hints(kind)
    for part in dataclasses.fields(kind):
        hint = hints[part.name]
        inner = hint if dataclasses.is_dataclass(hint) else None
        if isinstance(inner, type):
            yield from _fields(inner, f"{above}{part.name}.")
        elif not part.metadata.get("omegaconf_ignore") and not part.metadata.get("other_keys"):
            yield above + part.name
