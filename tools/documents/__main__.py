"""Write README.md and the pages of docs/ that have a template, from the bundles in results/ (`make results`).

    python -m tools.documents [--root DIR] [--check]

`--check` writes nothing. It fails if a page, a picture or a file of numbers differs from what would be written.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from plat.errors import PlatError
from tools.documents.pages import problems, write


def main() -> int:
    """Return 0 for success, 1 if `--check` finds problems, otherwise the exit code of the error."""
    parser = argparse.ArgumentParser(description="Write the pages of docs/templates/ from results/.")
    parser.add_argument("--root", type=Path, default=Path(), help="the checkout [.]")
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a page is not up to date")
    arguments = parser.parse_args()
    try:
        lines = problems(arguments.root) if arguments.check else write(arguments.root)
    except PlatError as error:
        print(error.render(), file=sys.stderr)
        return error.exit_code
    print("\n".join(lines) or "every page and number is that of docs/templates/ and results/")
    return int(bool(lines) and arguments.check)


if __name__ == "__main__":
    sys.exit(main())
