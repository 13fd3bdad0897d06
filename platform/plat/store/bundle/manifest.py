"""The manifest of a bundle: written last, and read with every key of its type before anything else is used."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from plat.errors import BundleError
from plat.plain_files import parse_json, read_bytes
from plat.store.bundle.format import EXPORT_AGAIN, FORMAT, MANIFEST, Bundle
from plat.text import forbidden_character

LARGEST = 1 << 28  # bytes of a manifest: that of 100,000 runs has a hundredth of it
_FILE_NAME = re.compile(
    r"(?:runs|metrics|tables)-\d{4,}\.parquet|experiments/(?:papers/)?[^/\\\x00-\x1f\x7f-\x9f]+\.yaml"
)


def manifest_bytes(bundle: Bundle, contents: Mapping[str, bytes]) -> bytes:
    """The manifest of a bundle whose other files are `contents` (name -> bytes)."""
    from plat import __version__

    files = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents.items()}
    manifest = {
        "plat_bundle": FORMAT,
        "written_by": f"plat {__version__}",
        "runs": bundle.tables["runs"].num_rows,
        "experiments": bundle.experiments,
        "overrides": bundle.overrides,
        "files": files,
    }
    return (json.dumps(manifest, indent=1, ensure_ascii=False) + "\n").encode()


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and forbidden_character(value) is None


def _is_experiment(value: Any) -> bool:
    """As `Bundle.experiments` describes it."""
    if not isinstance(value, dict) or not isinstance(value.get("runs"), list):
        return False
    return all(map(_is_name, [value.get("name"), value.get("title"), *value["runs"]]))


_MANIFEST_TYPES: dict[str, Callable[[Any], bool]] = {
    "runs": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "experiments": lambda value: isinstance(value, list) and all(map(_is_experiment, value)),
    "overrides": lambda value: isinstance(value, list) and all(map(_is_name, value)),
    "files": lambda value: isinstance(value, dict),
}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest with the keys that `read_bundle` uses, all of their types."""
    path = folder / MANIFEST
    try:
        manifest = parse_json(read_bytes(path, LARGEST))
        version = manifest["plat_bundle"]
        if isinstance(version, bool) or not isinstance(version, int):
            raise TypeError("the format is a whole number")
    except FileNotFoundError as error:
        problem = (
            "this folder is not a bundle: it has no manifest.json" if folder.is_dir() else "there is no such bundle"
        )
        raise BundleError(problem, where=str(folder), mend="name the folder that `plat export` made") from error
    except NotADirectoryError as error:
        raise BundleError(
            "a bundle is a folder, and this is a file",
            where=str(folder),
            mend="name the folder that `plat export` made",
        ) from error
    except (OSError, ValueError, KeyError, TypeError, OverflowError) as error:
        raise BundleError("the bundle's manifest cannot be read", where=str(path), mend=EXPORT_AGAIN) from error
    if version < 1:
        raise BundleError(
            f"the bundle's manifest is damaged: there is no format {version}", where=str(path), mend=EXPORT_AGAIN
        )
    if version > FORMAT:
        raise BundleError(
            f"the bundle was written by a newer plat (format {version}, this one knows {FORMAT})",
            where=str(path),
            mend="upgrade plat, or let the one that wrote it export what you need",
        )
    wrong = [key for key, holds in _MANIFEST_TYPES.items() if not holds(manifest.get(key))]
    names = () if wrong else manifest["files"]
    wrong += [str(name) for name in names if not isinstance(name, str) or not _FILE_NAME.fullmatch(name)]
    if wrong:
        raise BundleError(f"the bundle's manifest is damaged at {wrong[0]!r}", where=str(path), mend=EXPORT_AGAIN)
    return manifest  # type: ignore[no-any-return]
