"""Run the CUDA tests of the embedded trainer: equal numbers, a kill and a resume, four runs that share the card.

A measurement is a file of `tests/plat_rl/cuda`: each of its tests with its outcome, its seconds and what it has
recorded. A test that fails is a result, not an error of the kit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from steps.step import Step

TESTS = Path(__file__).parents[3] / "tests" / "plat_rl" / "cuda"


def main() -> None:
    step = Step("embedded")
    for file in sorted(TESTS.glob("test_*.py")):
        if "pytest.mark.cuda" in file.read_text():
            step.measure(file.stem, partial(outcomes, step, file))


def outcomes(step: Step, file: Path) -> dict[str, Any]:
    """Run one file of tests; return test -> its outcome, its seconds, the reason of a failure, what it recorded."""
    written = step.folder / f"{file.stem}.xml"
    written.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", str(file), "-m", "cuda", "-p", "no:cacheprovider", "-W", "default"]
    variables = {"PLAT_CUDA_TESTS": "cpu"} if step.device == "cpu" else {}
    subprocess.run([*command, f"--junitxml={written}", "-o", "junit_family=xunit1"], env={**os.environ, **variables})
    if not written.exists():
        raise RuntimeError("pytest wrote no results: see the log")
    return {f"{case.get('name')}": _outcome(case) for case in ElementTree.parse(written).iter("testcase")}


def _outcome(case: ElementTree.Element) -> dict[str, Any]:
    result: dict[str, Any] = {"outcome": "passed", "seconds": float(case.get("time", "0"))}
    for tag, outcome in (("failure", "failed"), ("error", "failed"), ("skipped", "skipped")):
        if (found := case.find(tag)) is not None:
            kind = "expected to fail" if found.get("type") == "pytest.xfail" else outcome
            result |= {"outcome": kind, "reason": (found.get("message") or "").splitlines()[:1]}
    recorded = {str(one.get("name")): one.get("value") for one in case.iter("property")}
    return result | ({"recorded": recorded} if recorded else {})


if __name__ == "__main__":
    main()
