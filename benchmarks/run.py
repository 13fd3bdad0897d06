"""`make bench`: run each benchmarks/bench_*.py in a separate process and print one table of ratios.

A benchmark is a script that prints, besides other output, lines of the form

    BENCH {"name": "plan 10,000 runs", "value": 0.81, "unit": "s", "against": "Hydra: 430 s", "ratio": 530}

`ratio` is how many times better it is than the reference of the same minute (below 1: worse). The optional `ok` says
if the target was met. No test judges the figures, because they depend on the load of the machine.

    python benchmarks/run.py                all of them
    python benchmarks/run.py planning cli   those whose file name contains one of the words
    python benchmarks/run.py --markdown     the table as Markdown, for docs/benchmarks.md
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from measuring import MARK, clean_environment

HERE = Path(__file__).parent
COLUMNS = ("benchmark", "measured", "aim or competitor", "ratio", "")


def run(script: Path) -> tuple[list[dict[str, Any]], bool]:
    """Run one script; return its figures and True if it succeeded. Print its other output."""
    figures = []
    command = [sys.executable, str(script)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=HERE.parent, env=clean_environment())
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(MARK):
            figures.append(json.loads(line.removeprefix(MARK)))
        else:
            print("   ", line, end="", flush=True)
    return figures, process.wait() == 0


def row(figure: dict[str, Any]) -> tuple[str, ...]:
    value, ratio, met = figure["value"], figure.get("ratio"), figure.get("ok")
    shown = f"{value:,.3g}" if isinstance(value, float) and value < 1000 else f"{value:,.0f}"
    return (
        figure["name"],
        f"{shown} {figure['unit']}",
        figure["against"],
        "" if ratio is None else f"{ratio:.2f}x",
        "" if met is None else ("ok" if met else "MISSED"),
    )


def as_text(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(line[i]) for line in [COLUMNS, *rows]) for i in range(len(COLUMNS))]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in [COLUMNS, *rows])


def as_markdown(rows: list[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(line) + " |" for line in [COLUMNS, *rows]]
    return "\n".join([lines[0], "|" + "---|" * len(COLUMNS), *lines[1:]])


def main(arguments: list[str]) -> int:
    words = [word for word in arguments if not word.startswith("-")]
    if unknown := [word for word in arguments if word.startswith("-") and word != "--markdown"]:
        print(__doc__)
        return 0 if unknown[0] in ("-h", "--help") else 2
    known = {path.stem.removeprefix("bench_"): path for path in sorted(HERE.glob("bench_*.py"))}
    scripts = [path for name, path in known.items() if not words or any(word in name for word in words)]
    if not scripts:
        print(f"error: no benchmark matches {' '.join(words)!r}\n  fix: one of: {', '.join(known)}", file=sys.stderr)
        return 2
    rows, failed = [], []
    for script in scripts:
        started = time.perf_counter()
        print(f"{script.name} ...", flush=True)
        figures, whole = run(script)
        rows += [row(figure) for figure in figures]
        if not whole:
            failed.append(script.name)
        print(f"{script.name} took {time.perf_counter() - started:.0f} s", flush=True)
    load = os.getloadavg()[0]
    print(f"\n{platform.machine()}, {os.cpu_count()} cores, load {load:.1f}, Python {platform.python_version()}\n")
    print(as_markdown(rows) if "--markdown" in arguments else as_text(rows))
    for name in failed:
        print(f"error: {name} did not run to its end", file=sys.stderr)
    return 3 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
