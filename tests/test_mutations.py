"""The mutations of `tests/mutations.py` still fit the source, so that a moved line is noticed before they are run."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "mutations.py"
_spec = importlib.util.spec_from_file_location("mutations", SCRIPT)
assert _spec is not None and _spec.loader is not None
mutations = importlib.util.module_from_spec(_spec)
sys.modules["mutations"] = mutations  # its dataclass asks for its module
_spec.loader.exec_module(mutations)

EDITS = {name: edit for name, edit in mutations.MUTATIONS.items() if isinstance(edit, mutations.Edit)}


@pytest.mark.parametrize("name", EDITS)
def test_what_a_mutation_replaces_stands_in_the_source(name: str) -> None:
    edit = EDITS[name]
    path = mutations.ROOT / edit.file
    if edit.everywhere:
        assert any(edit.old in file.read_text() for file in path.rglob("*.py"))
    else:
        assert path.read_text().count(edit.old) == 1
