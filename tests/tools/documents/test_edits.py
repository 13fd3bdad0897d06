"""Every number and picture of the pages is that of the bundles, and an edit by hand is found where it was made."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tools.documents.pages import problems

from plat.errors import SpecError

ROOT = Path(__file__).parents[3]
# (page, what stands there, what is written by hand): numbers in regions, in sentences, in tables, and given ones
EDITS = [
    ("README.md", "720 runs", "721 runs"),
    ("README.md", "-->6 of 10<!--", "-->7 of 10<!--"),
    ("README.md", "some minutes, once", "two minutes, once"),
    ("docs/results.md", "29.2", "29.3"),
    ("docs/tasks.md", "5.5 [", "5.6 ["),
    ("docs/findings.md", "- **partial**: With the division and with step costs", "- **reproduced**: With the division"),
    ("docs/findings.md", "several times larger", "in three of five seeds larger"),
    ("docs/findings.md", "\"Smaller than assumed\" means that a gain of 5 points", "It means that a gain of 2 points"),
    ("docs/searches.md", "-->5 of 18<!--", "-->15 of 18<!--"),
    ("docs/searches.md", "-->p .011<!--", "-->p .001<!--"),
    ("docs/searches.md", "-->26 to 88 %<!--", "-->56 to 88 %<!--"),
    ("docs/base-models.md", "-->.25<!--", "-->.35<!--"),
]  # fmt: skip
TABLE = re.compile(r"<!-- results: second_look table collapse_regimes plain -->(.*?)<!-- end -->", re.DOTALL)


def copied(folder: Path, *pages: Path) -> Path:
    """A folder with these pages and all pictures."""
    shutil.copytree(ROOT / "docs" / "images", folder / "docs" / "images")
    for page in pages:
        shutil.copy(ROOT / page, folder / page)
    return folder


@pytest.mark.long
def test_every_number_of_the_pages_is_that_of_the_bundles(bundles):
    assert problems(ROOT, bundles) == []


@pytest.mark.long
def test_every_edit_by_hand_is_found_where_it_was_made(bundles, tmp_path):
    pages = dict.fromkeys(Path(page) for page, _, _ in EDITS)
    root = copied(tmp_path, *pages, Path("docs/quickstart.md"))
    places = []
    for page, old, new in EDITS:
        text = (root / page).read_text(encoding="utf-8")
        assert old in text, f"{page} has no {old!r}: this test edits what is there"
        (root / page).write_text(text.replace(old, new, 1), encoding="utf-8")
        places.append(f"{page}:{text.count(chr(10), 0, text.index(old)) + 1}: ")
    quickstart = root / "docs" / "quickstart.md"
    text = quickstart.read_text(encoding="utf-8")
    table = TABLE.search(text)
    assert table is not None
    # the marks of a table are taken away, line for line
    quickstart.write_text(text.replace(table[0], f"\n{table[1]}\n".removeprefix("\n")), encoding="utf-8")
    places.append(f"docs/quickstart.md:{text.count(chr(10), 0, table.start()) + 6}: ")
    found = problems(root, bundles)
    missed = [place for place in places if not any(line.startswith(place) for line in found)]
    assert not missed, "\n".join([*missed, "found:", *found])


def test_an_exchanged_picture_is_found(bundles, tmp_path):
    root = copied(tmp_path, Path("README.md"))
    pictures = root / "docs" / "images"
    drawn = (pictures / "table4-paired_deltas.png").read_bytes()
    (pictures / "table4-paired_deltas.png").write_bytes((pictures / "token_cost_third_build-collapse.png").read_bytes())
    with pytest.raises(SpecError, match="was not drawn from these numbers") as error:
        problems(root, bundles)
    assert "README.md:" in error.value.where
    # one that names the right numbers, but is not the picture that the page names
    (pictures / "table4-paired_deltas.png").write_bytes(drawn + b"0")
    assert [line.split(":")[0] for line in problems(root, bundles)] == ["README.md"]
