"""Find the values of a run in its path (`lr=0.1,seed=2/...`) and in a config file beside it."""

from __future__ import annotations

import json
import re
from pathlib import Path, PurePath
from typing import Any

from plat.app.recorded.foreign_run import flat_values, text_values
from plat.errors import SpecError
from plat.plain_files import parse_json, parse_yaml, read_text

CONFIGS = ("config.json", "config.yaml", "hparams.yaml", ".hydra/config.yaml")
KEY = r"[A-Za-z][\w.]*"
# A value ends at a separator that another `key=` follows: `lr=0.1-seed=2`, `lr=0.1,seed=2`, `lr=0.1_weight_decay=0`.
PAIR = re.compile(rf"({KEY})=(.*?)(?=[-_,;& ]+{KEY}=|$)")
SEED = re.compile(r"seed[-_]?(\d+)", re.IGNORECASE)  # a piece such as `seed3`
NUMBER_TEXT = re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+")  # YAML 1.1, which others write, reads 1e-3 as text


def values_of(path: PurePath, folder: Path) -> dict[str, Any]:
    """Return the values of a run: those of config files in `folder`, and over them those in the pieces of `path`.

    Raises SpecError if a config file cannot be read.
    """
    found: dict[str, Any] = {}
    for name in CONFIGS:
        if (folder / name).is_file():
            found |= _of_config(folder / name)
    return found | text_values(texts_of(path))


def texts_of(path: PurePath) -> dict[str, str]:
    """Return the values in the pieces of a path as they are written."""
    seeds = [("seed", match[1]) for piece in path.parts if (match := SEED.fullmatch(piece))]
    return dict([*seeds, *(pair for piece in path.parts for pair in PAIR.findall(piece))])


def _of_config(path: Path) -> dict[str, Any]:
    try:
        text = read_text(path)
        content = parse_json(text) if path.suffix == ".json" else parse_yaml(text)
    except (OSError, ValueError) as error:
        raise SpecError(f"the config cannot be read: {error}", where=str(path), fix="correct or remove it") from None
    if not isinstance(content, dict):
        what = f"the config is no mapping: {json.dumps(content, default=str):.60}"
        raise SpecError(what, where=str(path), fix="correct or remove it")
    values = flat_values(content)
    numbers = {key: text for key, text in values.items() if isinstance(text, str) and NUMBER_TEXT.fullmatch(text)}
    return values | text_values(numbers)
