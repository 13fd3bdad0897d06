"""An experiment's whole report: its artifacts, the verdicts on its claims, and one page with everything.

report = build_report(frames, experiment)     # reads frames only; writes nothing
report.print(console)
files = report.write(folder)                  # file name -> path; equal frames give equal bytes
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import HomeError, SpecError
from plat_analysis import plugins
from plat_analysis.artifact import Figure, Table
from plat_analysis.claims.engine import Verdict, check_claims
from plat_analysis.results import Results
from plat_analysis.runs_table import runs_table

if TYPE_CHECKING:
    from rich.console import Console

    from plat.spec.experiment import Experiment
    from plat.store.reader import Frames

CLAIM_STYLES = {"reproduced": "green", "partial": "yellow", "not_reproduced": "red", "not_enough_data": "bright_black"}


@dataclass
class Report:
    """Tables and figures in the order of the experiment file, then the verdicts. `values` are the key numbers, with
    names that MLflow accepts."""

    experiment: Experiment
    results: Results
    artifacts: list[Table | Figure]
    claims: list[Verdict]
    values: dict[str, float]

    def print(self, console: Console) -> None:
        """Tables and verdicts on the terminal."""
        from plat_analysis.terminal import print_table

        for artifact in self.artifacts:
            if isinstance(artifact, Table) and artifact.printed:
                print_table(console, artifact)
                console.print()
        for verdict in self.claims:
            style = CLAIM_STYLES[verdict.status]
            console.print(f"[{style}]{verdict.status.replace('_', ' '):>15}[/]  ", end="")
            console.print(f"{verdict.id}: {verdict.says}", markup=False, highlight=False)
            if verdict.detail:
                console.print(f"{'':17}{verdict.detail}", style="bright_black", markup=False, highlight=False)

    def files(self) -> dict[str, bytes]:
        """Every file of the report, by name."""
        from plat_analysis import render, style
        from plat_analysis.html import page

        out: dict[str, bytes] = {}
        pictures: dict[str, bytes] = {}
        for artifact in [*self.artifacts, runs_table(self.results)]:
            if isinstance(artifact, Figure):
                svg, png = style.images(artifact)
                pictures[artifact.name] = svg
                out[f"{artifact.name}.svg"], out[f"{artifact.name}.png"] = svg, png
                out[f"{artifact.name}.csv"] = render.tidy(artifact.points).encode()
            else:
                out[f"{artifact.name}.md"] = render.markdown(artifact).encode()
                out[f"{artifact.name}.csv"] = render.tidy(artifact.records).encode()
                out[f"{artifact.name}.tex"] = render.latex(artifact).encode()
        claims = {"claims": [verdict.as_dict() for verdict in self.claims]}
        out["claims.json"] = (json.dumps(claims, indent=2, ensure_ascii=False, sort_keys=True) + "\n").encode()
        out["report.html"] = page(self, pictures).encode()
        return out

    def write(self, folder: Path | str) -> dict[str, Path]:
        """Write every file into the folder: all are made first, then moved into place one by one, each atomically."""
        folder = Path(folder)
        contents = self.files()
        scratch: Path | None = None
        try:
            folder.mkdir(parents=True, exist_ok=True)
            scratch = Path(tempfile.mkdtemp(prefix=".report-", dir=folder))
            for name, content in contents.items():
                (scratch / name).write_bytes(content)
            for name in contents:
                os.replace(scratch / name, folder / name)
        except OSError as error:
            raise HomeError(
                f"cannot write the report: {error.strerror or error}",
                where=str(folder),
                mend="make the folder writable, free some space, or choose another with --out DIR",
            ) from error
        finally:
            if scratch is not None:
                shutil.rmtree(scratch, ignore_errors=True)
        return {name: folder / name for name in contents}


def build_report(frames: Frames, experiment: Experiment) -> Report:
    """Every artifact and claim of an experiment file; SpecError when the file asks for something that is not there."""
    artifacts: list[Table | Figure] = []
    for index, entry in enumerate(experiment.report):
        where = f"{experiment.path}: report[{index}]"
        if not entry.get("builder"):
            raise SpecError("a report entry names no builder", where=where, mend="add `builder: <name>`")
        build = plugins.find("plat.reports", str(entry["builder"]), where)
        arguments = {key: value for key, value in entry.items() if key != "builder"}
        made = plugins.call(build, frames, experiment, arguments, where)
        artifacts += made if isinstance(made, list | tuple) else [made]
        if not all(isinstance(artifact, Table | Figure) for artifact in artifacts):
            raise SpecError(
                f"builder {entry['builder']!r} gave something else than tables and figures",
                where=where,
                mend="a builder returns a list of plat_analysis.artifact.Table and Figure",
            )
    _name_apart(artifacts)
    claims = check_claims(frames, experiment)
    values: dict[str, Any] = {}
    for artifact in artifacts:
        values |= {_metric_name(name): float(value) for name, value in artifact.values.items()}
    return Report(experiment, Results(frames, experiment), artifacts, claims, values)


def _name_apart(artifacts: list[Table | Figure]) -> None:
    """File names must be plain, and no two artifacts may share one."""
    taken: set[str] = {"runs", "claims", "report"}
    for artifact in artifacts:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", artifact.name).strip("-.") or "artifact"
        name = next(n for i in range(len(artifacts) + 1) if (n := stem if i == 0 else f"{stem}-{i + 1}") not in taken)
        artifact.name = name
        taken.add(name)


def _metric_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_./ -]+", "-", name)
