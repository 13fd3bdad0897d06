"""Whether every table and figure of the reports in a home has numbers, and every claim a verdict.

    python .ci/nothing_empty.py HOME

Reads the CSV and JSON files that `plat report` has written. Exits with 3, and names what is empty. A part whose every
line says in `note` why it has no number is named, and is no error: two prompts give too few measurements for a mean.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

NO_RESULTS = ("paper", "seed", "step", "run", "star", "unit", "setting")  # how columns begin that hold no result


def has_numbers(file: Path) -> bool:
    """Whether any line of a CSV file has a result: in `value`, or where there is no such column, in any other."""
    with file.open(newline="", encoding="utf-8") as lines:
        for line in csv.DictReader(lines):
            shown = [line["value"]] if "value" in line else [v for k, v in line.items() if not k.startswith(NO_RESULTS)]
            if any(map(_is_number, shown)):
                return True
    return False


def is_explained(file: Path) -> bool:
    """Whether every line of a CSV file says why it has no number."""
    with file.open(newline="", encoding="utf-8") as lines:
        notes = [line.get("note") for line in csv.DictReader(lines)]
    return bool(notes) and all(notes)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def empty(folder: Path) -> Iterator[str]:
    """What is empty in the folder of a report."""
    tables = [file for file in sorted(folder.glob("*.csv")) if file.stem != "runs"]
    claims = json.loads((folder / "claims.json").read_text(encoding="utf-8"))["claims"]
    if not tables and not claims:
        yield f"{folder.name}: no table, figure or claim"
    for file in tables:
        if not has_numbers(file) and is_explained(file):
            print(f"{folder.name}: {file.stem} has no number, and says why")
        elif not has_numbers(file):
            yield f"{folder.name}: {file.stem} has no number"
    yield from (f"{folder.name}: claim {claim['id']} has no verdict" for claim in claims if not claim.get("verdict"))


def main(home: Path) -> int:
    every = sorted((home / "reports").glob("*/"))
    folders = [folder for folder in every if "+" not in folder.name]  # the joint page has no tables
    if not folders:
        print(f"error: there is no report in {home}", file=sys.stderr)
        return 3
    found = [line for folder in folders for line in empty(folder)]
    print(f"{len(folders)} reports looked at, {len(found)} empty parts", *found, sep="\n  ")
    return 3 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
