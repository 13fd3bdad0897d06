"""Write the list of slow tests, tests/slow.txt, from reports of pytest on the whole suite.

    make test ARGS="--junitxml build/test.xml"; make test-slow ARGS="--junitxml build/slow.xml"
    python -m tools.slow_tests build/test.xml build/slow.xml

A test function is slow if one of its cases took longer than SECONDS. `make test` leaves slow tests out.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

SECONDS = 2.0
LIST = Path("tests/slow.txt")


def slow_tests(reports: Iterable[Path]) -> list[str]:
    """Return the sorted names of slow functions, e.g. `tests/plat/test_api.py::test_a_sweep`, of JUnit reports."""
    cases = [case for report in reports for case in ElementTree.parse(report).getroot().iter("testcase")]
    slow = [case for case in cases if float(case.get("time", 0)) > SECONDS]
    return sorted({f"{case.get('file')}::{str(case.get('name')).partition('[')[0]}" for case in slow})


if __name__ == "__main__":
    LIST.write_text("\n".join(slow_tests(map(Path, sys.argv[1:]))) + "\n", encoding="utf-8")
    print(f"{LIST} written")
