"""States and outcomes have one spelling, in `plat.words`: no other module compares with their texts."""

import ast
import re
from pathlib import Path

import pytest

from plat.words.outcomes import CANCELLED, FINISHED
from plat.words.states import JobState, LeaseState, RunStatus

ROOT = Path(__file__).parent.parent
FOLDERS = [ROOT / "platform" / "plat", ROOT / "platform" / "plat_rl"]
FOLDERS += [ROOT / "analysis" / "plat_analysis", ROOT / "analysis" / "plat_ragen2"]
WORDS = {*RunStatus, *LeaseState, *JobState, FINISHED, CANCELLED}
OUTCOME = re.compile(r"(failed|stopped):\w*$")
NAMED = ("state", "states", "held", "outcome", "status")  # what holds one of the words


def literals(source: str) -> list[str]:
    """Return `line: word` for each word of the vocabulary that something of these names is compared with.

    Also each text that spells an outcome of a failure or of a stop, wherever it stands.
    """
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and OUTCOME.match(node.value):
            found.append(f"{node.lineno}: {node.value}")
        if not isinstance(node, ast.Compare) or not is_state(node.left):
            continue
        constants = [leaf for side in node.comparators for leaf in ast.walk(side) if isinstance(leaf, ast.Constant)]
        found += [f"{leaf.lineno}: {leaf.value}" for leaf in constants if leaf.value in WORDS]
    return found


def is_state(node: ast.expr) -> bool:
    """Return True if an expression is named as the words are: `held`, `run.state`, `states[id]`, `lease.state(run)`."""
    if isinstance(node, ast.Call):
        return is_state(node.func)
    if isinstance(node, ast.Subscript):
        named = isinstance(node.slice, ast.Constant) and node.slice.value in NAMED
        return named or is_state(node.value)
    return (node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")) in NAMED


def test_states_are_compared_with_the_words_for_them():
    wrong = [
        f"{path.relative_to(ROOT)}:{found}"
        for folder in FOLDERS
        for path in sorted(folder.rglob("*.py"))
        if "words" not in path.parts
        for found in literals(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    "source",
    [
        'run.state == "done"',
        'states[run.id] != "done"',
        'job.state == "ended"',
        'lease.state(run) in ("live", "unknown")',
        'result["held"] == "live"',
        '[run for run in runs if run.outcome == "finished"]',
        'end("failed:oom")',
        'f"stopped:{reason}"',
    ],
)
def test_a_literal_is_seen(source):
    assert literals(source)


def test_words_keep_their_texts():
    assert f"{RunStatus.DONE}" == str(RunStatus.DONE) == "done" and RunStatus("queued") is RunStatus.QUEUED
