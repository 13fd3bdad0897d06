"""Count the lines that a sweep of an unchanged script needs with plat and with other tools.

    python benchmarks/lines_needed.py                the table, as Markdown
    python benchmarks/lines_needed.py --run hydra    one run with the files of a tool (plat or hydra)

The task: sweep `examples/argparse_torch/train.py` over three axes of two values and three seeds, in jobs that keep
their metrics and checkpoints apart. `benchmarks/lines_needed/TOOL/` has the smallest files with which a tool does it. A
line of the script counts if it was added, changed or removed, and not if only its indentation changed. A line of
another file counts if it is no comment and not empty.
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "examples" / "argparse_torch" / "train.py"
FOLDER = Path(__file__).parent / "lines_needed"
ONE_RUN = {"lr": 0.1, "hidden": 8, "momentum": 0.9, "seed": 0}
# tool -> (its name, what was really run with the files of its folder)
TOOLS = {
    "plat": ("plat", "24 runs"),
    "hydra": ("Hydra with submitit", "24 runs, with the launcher that Hydra has built in"),
    "guild": ("Guild AI", "24 runs"),
    "seml": ("SEML", "one run of the script; no sweep, because it needs MongoDB"),
}


def changed_lines(old: str, new: str) -> int:
    """Return the number of lines that were added, changed or removed; indentation and empty lines do not count."""
    lines = [[line.strip() for line in text.splitlines() if line.strip()] for text in (old, new)]
    edits = difflib.SequenceMatcher(None, *lines, autojunk=False).get_opcodes()
    return sum(max(i2 - i1, j2 - j1) for kind, i1, i2, j1, j2 in edits if kind != "equal")


def lines_of(text: str) -> int:
    """Return the number of lines that are neither empty nor a comment."""
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))


def counted(tool: str) -> tuple[int, int]:
    """Return the lines that a tool changes in the script, and those of its other files."""
    files = sorted(path for path in (FOLDER / tool).iterdir() if path.is_file())
    script = next((path for path in files if path.name == SCRIPT.name), SCRIPT)
    others = sum(lines_of(path.read_text(encoding="utf-8")) for path in files if path != script)
    return changed_lines(SCRIPT.read_text(encoding="utf-8"), script.read_text(encoding="utf-8")), others


def table() -> str:
    """Return the table of `docs/comparison.md`."""
    lines = ["| tool | lines changed in the script | lines of configuration | run |", "|---|---|---|---|"]
    for tool, (name, run) in TOOLS.items():
        changed, others = counted(tool)
        lines.append(f"| {name} | {changed} | {others} | {run} |")
    return "\n".join(lines)


def run(tool: str, folder: Path) -> None:
    """Do one run with the files of plat or Hydra, in a folder. Raises CalledProcessError if it fails."""
    values = [f"{name}={value}" for name, value in ONE_RUN.items()]
    if tool == "plat":
        command = ["-m", "plat", "sweep", str(FOLDER / "plat" / "sweep.yaml"), "--home", str(folder / "home"), *values]
    else:  # `basic`: here, without SLURM
        command = [str(FOLDER / "hydra" / "train.py"), "--multirun", "hydra/launcher=basic", *values]
    subprocess.run([sys.executable, *command], check=True, cwd=folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--run", choices=["plat", "hydra"])
    given = parser.parse_args()
    if given.run is None:
        print(table())
        return
    with tempfile.TemporaryDirectory() as scratch:
        run(given.run, Path(scratch))


if __name__ == "__main__":
    main()
