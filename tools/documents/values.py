"""Values that the templates of pages call. Each names an experiment file, and a part of its report.

- `number("table4", "peak_success/GRPO/sokoban/delta")` is 10.4: an estimate, see `numbers`; `signed=True` makes +10.4.
- `change("table4", "claim/filter-helps-every-row/GRPO")` is +2.5 [+1.4, +3.6]: an estimate with its interval.
- `verdict("table4", "filter-helps-every-row")` is partial. `runs("table4")` says how many runs there are.
- `table("table4", "peak_success", lines=["peak"])` is a table; `lines`: only those with this second cell.
- `figure("table4", "paired_deltas")` is a picture, drawn into docs/images/.
- `judged("tdmpc2")` are the claims of a file of experiments/published with their verdicts, from results/published.
- `output("-m plat_envs.policies --markdown")` is what Python prints: a table, or other text as code.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from plat.errors import SpecError
from plat.suggest import suggest
from plat_analysis import artifact
from plat_analysis.figures import style
from plat_analysis.report import render
from plat_analysis.report.report import Report
from plat_analysis.statistics.intervals import Estimate
from tools.documents.bundles import Bundles
from tools.documents.numbers import numbers
from tools.documents.published import SUMMARIES

Value = TypeVar("Value")
IMAGES = Path("docs/images")


class Values:
    """Give the values of pages from the bundles. `draw`: write pictures; else SpecError for one that is out of date."""

    def __init__(self, bundles: Bundles, root: Path, draw: bool) -> None:
        self.bundles, self.root, self.draw = bundles, root, draw
        self.numbers: dict[str, Any] = {}  # file -> its numbers, of the files that were asked for

    def of(self, file: str) -> dict[str, Any]:
        """Return the numbers of an experiment file; each file is read once."""
        summary = self.root / SUMMARIES / f"{file}.json"
        if file not in self.numbers and summary.is_file():
            found = json.loads(summary.read_text(encoding="utf-8"))
            verdicts = {claim["id"]: claim["verdict"].replace("_", " ") for claim in found["verdicts"]}
            self.numbers[file] = {"numbers": found["numbers"], "verdicts": verdicts}
        if file not in self.numbers:
            self.numbers[file] = numbers(self.bundles.report(file))
        entry: dict[str, Any] = self.numbers[file]
        return entry

    def functions(self, page: Path) -> dict[str, Callable[..., Any]]:
        """Return what the template of a page may call."""
        return {
            "number": self.number,
            "change": self.change,
            "verdict": lambda file, name: _named(self.of(file)["verdicts"], name, "claim"),
            "runs": lambda file: self.of(file)["runs"],
            "table": lambda file, name, lines=(): table(self.bundles.report(file), name, lines),
            "figure": lambda file, name: self.figure(file, name, page),
            "judged": self.judged,
            "output": output,
        }

    def judged(self, file: str) -> list[dict[str, str]]:
        """Return the claims of a file of published runs: id, says, verdict, reason. SpecError without a summary."""
        path = self.root / SUMMARIES / f"{file}.json"
        if not path.is_file():
            raise SpecError("there is no such summary", where=str(path), fix="python -m tools.documents.published")
        found = json.loads(path.read_text(encoding="utf-8"))["verdicts"]
        return [{**claim, "verdict": claim["verdict"].replace("_", " ")} for claim in found]

    def number(self, file: str, name: str, digits: int = 1, signed: bool = False) -> str:
        """Return an estimate without its interval."""
        return artifact.number(_named(self.of(file)["numbers"], name, "number")[0], digits, signed)

    def change(self, file: str, name: str, digits: int = 1, signed: bool = True) -> str:
        """Return an estimate with its interval. Raises SpecError if it has none."""
        ends = _named(self.of(file)["numbers"], name, "number")
        if len(ends) < 3:
            raise SpecError(f"{name!r} of {file} has no interval", fix="write number(...)")
        return f"{artifact.number(ends[0], digits, signed)} {artifact.interval(Estimate(*ends), digits, signed)}"

    def figure(self, file: str, name: str, page: Path) -> str:
        """Return the link to a picture for a page. Draws it if `draw`, else SpecError if it shows other numbers."""
        figure = _artifact(self.bundles.report(file), name, artifact.Figure)
        path = self.root / IMAGES / f"{file}-{name}.png"
        if self.draw:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(style.images(figure, ["png"])["png"])
        elif not path.is_file() or not style.is_drawn_from(path.read_bytes(), figure.fingerprint):
            raise SpecError(f"{IMAGES / path.name} is not drawn from these numbers", fix="`make results` draws it")
        return f"![{figure.title}]({(IMAGES / path.name).relative_to(page.parent).as_posix()})"


def table(report: Report, name: str, lines: Collection[str] = ()) -> str:
    """Return a table as Markdown, without caption and notes. `lines`: only those with this second cell."""
    found = _artifact(report, name, artifact.Table)
    rows, stub = [], None
    for row in found.rows:
        stub = row.cells[0] if row.rule or stub is None else stub
        if row.cells[1].text in lines:
            rows.append(replace(row, cells=(stub, *row.cells[1:])))
    if lines and not rows:
        raise SpecError(
            f"the table {name!r} has no such line",
            fix=f"its lines: {', '.join(row.cells[1].text for row in found.rows)}",
        )
    shown = replace(found, caption="", fine_print="", notes=[], rows=rows if lines else found.rows)
    return render.markdown(shown).partition("\n")[2].strip()


def output(arguments: str) -> str:
    """Return the output of Python with these arguments. Raises SpecError if it fails."""
    done = subprocess.run([sys.executable, *shlex.split(arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SpecError(f"`python {arguments}` failed: {done.stderr.strip()[-500:]}", fix="fix the command")
    printed = done.stdout.strip()
    return printed if printed.startswith("|") else f"```text\n{printed}\n```"


def _artifact(report: Report, name: str, kind: type[Value]) -> Value:
    known = {item.name: item for item in report.artifacts if isinstance(item, kind)}
    return _named(known, name, kind.__name__.lower())


def _named(values: Mapping[str, Value], name: str, kind: str) -> Value:
    """Return the value of this name. Raises SpecError, with the nearest name, if there is none."""
    if name not in values:
        raise SpecError(f"the report has no {kind} {name!r}", fix=suggest(name, values, f"{kind}s"))
    return values[name]
