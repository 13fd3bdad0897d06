"""Writes the numbers of README.md and docs/ from the bundle in docs/results (`make results`).

    python -m plat_analysis.documents [--root DIR] [--check]

`--check` writes nothing and fails where a page differs from what would be written, or where a page of results has a
measured number outside a marked region.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from plat.errors import PlatError
from plat_analysis.documents.pages import problems, write


def main() -> int:
    """0: all is as it should be; 1: `--check` names what is not; 2: a region or the bundle cannot be used."""
    parser = argparse.ArgumentParser(description="Write the numbers of README.md and docs/ from docs/results.")
    parser.add_argument("--root", type=Path, default=Path(), help="the checkout [.]")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is not up to date")
    arguments = parser.parse_args()
    try:
        lines = problems(arguments.root) if arguments.check else write(arguments.root)
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return error.exit_code
    print("\n".join(lines) or "every number in README.md and docs/ is that of docs/results")
    return int(bool(lines) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
