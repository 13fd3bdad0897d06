"""What tests of bundles share: the content of a folder, and a bundle that must be refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from plat.errors import BundleError
from plat.store.bundle.bundle_importer import import_bundle


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def refused(home, folder, match):
    """The bundle is refused with this message, and the home has no run and no scratch folder of it."""
    before = contents(home.runs)
    with pytest.raises(BundleError, match=match) as error:
        import_bundle(home, home.store_uri(), folder)
    assert error.value.fix and error.value.where
    assert contents(home.runs) == before and not list(home.root.glob(".tmp*"))
    return error.value.render()
