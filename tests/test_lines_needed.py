"""benchmarks/lines_needed.py: what it counts, its table in the documentation, and that its files work."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

ROOT = Path(__file__).parent.parent
BENCHMARK = ROOT / "benchmarks" / "lines_needed.py"
_spec = spec_from_file_location("lines_needed", BENCHMARK)
assert _spec is not None and _spec.loader is not None
lines_needed = module_from_spec(_spec)
_spec.loader.exec_module(lines_needed)


def test_a_line_counts_once_and_indentation_does_not() -> None:
    old = "a\nb\nc\n"
    assert lines_needed.changed_lines(old, "def f():\n    a\n\n    b\n    c\n") == 1
    assert lines_needed.changed_lines(old, "a\nB\nc\n") == 1
    assert lines_needed.changed_lines(old, "c\n") == 2
    assert lines_needed.lines_of("# a comment\n\nkey: value  # with one\n") == 1


def test_the_page_has_the_table_of_the_benchmark() -> None:
    assert f"\n{lines_needed.table()}\n" in (ROOT / "docs" / "comparison.md").read_text(encoding="utf-8")


def test_the_script_of_hydra_gives_the_numbers_of_the_original(tmp_path: Path) -> None:
    values = [word for name, value in lines_needed.ONE_RUN.items() for word in (f"--{name}", str(value))]
    command = [sys.executable, str(lines_needed.SCRIPT), *values, "--checkpoints", str(tmp_path)]
    adapted = [sys.executable, str(BENCHMARK), "--run", "hydra"]
    first, second = (subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for words in (command, adapted))
    outputs = [process.communicate(timeout=120)[0] for process in (first, second)]
    original, with_hydra = ([json.loads(line) for line in text.splitlines() if line[:1] == "{"] for text in outputs)
    assert original == with_hydra and len(original) == 20
