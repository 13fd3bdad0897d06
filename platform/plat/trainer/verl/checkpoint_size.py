"""How large a local checkpoint is, read from the headers of its files (light: imports nothing heavy)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import NamedTuple

from plat.errors import SpecError

LARGEST_HEADER = 100_000_000  # bytes, the limit of the safetensors format


class Size(NamedTuple):
    """Parameters in billions, and words of the vocabulary."""

    billions: float
    vocabulary: int


def checkpoint_size(folder: Path) -> Size:
    """The size of a checkpoint with config.json and *.safetensors; SpecError for one that cannot be read.

    Every tensor counts once, so an embedding that is tied to the output does, too.
    """
    try:
        config = json.loads((folder / "config.json").read_bytes())
        vocabulary = int(config["vocab_size"])
        parameters = sum(_parameters(file) for file in sorted(folder.glob("*.safetensors")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SpecError(
            f"the checkpoint at {folder} cannot be read: {error}",
            where="model.path",
            mend="name a folder with config.json and *.safetensors",
        ) from error
    return Size(parameters / 1e9, vocabulary)


def _parameters(file: Path) -> int:
    """How many numbers are in a safetensors file: its header begins with its own length, and is JSON."""
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if length > LARGEST_HEADER:
            raise ValueError(f"{file.name} is no safetensors file")
        header = json.loads(stream.read(length))
    return sum(math.prod(entry["shape"]) for name, entry in header.items() if name != "__metadata__")
