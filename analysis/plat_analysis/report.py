"""An experiment's whole report: its artifacts, the verdicts on its claims, and one page with everything.

report = build_report(frames, experiment)     # reads frames only; writes nothing
report.print(console)
files = report.write(folder)                  # file name -> path; equal frames give equal bytes
report.failures                               # what could not be made, and where the file asks for it
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import HomeError, SpecError
from plat_analysis import plugins
from plat_analysis.artifact import Figure, Table
from plat_analysis.checking import check_entries, place
from plat_analysis.claims.engine import Verdict, run_checks
from plat_analysis.failure import Failure
from plat_analysis.provenance import Provenance
from plat_analysis.results import Results
from plat_analysis.runs_table import runs_table, short_runs_table

if TYPE_CHECKING:
    from rich.console import Console

    from plat.spec.experiment import Experiment
    from plat.store.mlflow.frames import Frames

CLAIM_STYLES = {
    "reproduced": "green",
    "partial": "yellow",
    "not_reproduced": "red",
    "undecided": "bright_black",
    "not_enough_data": "bright_black",
}


@dataclass
class Report:
    """Tables and figures in the order of the experiment file, then the verdicts.

    `values` are the key numbers, with names that MLflow accepts. `failures` are the entries that could not be built and
    the figures that could not be drawn (the latter are known after `files` or `write`); everything else is made.
    """

    experiment: Experiment
    results: Results
    artifacts: list[Table | Figure]
    claims: list[Verdict]
    values: dict[str, float]
    provenance: Provenance | None = None
    build_failures: list[Failure] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)  # artifact name -> where the file asks for it
    _draw_failures: dict[str, Failure] = field(default_factory=dict)

    @property
    def failures(self) -> list[Failure]:
        return [*self.build_failures, *self._draw_failures.values()]

    def print(self, console: Console) -> None:
        """Tables, verdicts and failures on the terminal."""
        from plat_analysis.terminal import print_table

        if not self.experiment.report:
            print_table(console, short_runs_table(self.results))
            console.print()
        for artifact in self.artifacts:
            if isinstance(artifact, Table) and artifact.printed:
                print_table(console, artifact)
                console.print()
        for warning in self.results.warnings():
            console.print(f"warning: {warning}", style="yellow", markup=False, highlight=False)
        for verdict in self.claims:
            style = CLAIM_STYLES[verdict.status]
            console.print(f"[{style}]{verdict.status.replace('_', ' '):>15}[/]  ", end="")
            console.print(f"{verdict.id}: {verdict.says}", markup=False, highlight=False)
            for line in verdict.lines:
                console.print(f"{'':17}{line}", style="bright_black", markup=False, highlight=False)
        for failure in self.failures:
            console.print(failure.render(), style="red", markup=False, highlight=False)

    def files(self) -> dict[str, bytes]:
        """Every file of the report, by name. A figure that cannot be drawn is left out and named in `failures`; its
        numbers are still written."""
        from plat_analysis import render
        from plat_analysis.page import page

        texts: dict[str, str] = {}
        pictures: dict[str, tuple[bytes, bytes]] = {}
        for artifact in [*self.artifacts, runs_table(self.results)]:
            if isinstance(artifact, Figure):
                texts[f"{artifact.name}.csv"] = render.tidy(artifact.points)
                if (drawn := self._draw(artifact)) is not None:
                    pictures[artifact.name] = drawn
            else:
                texts[f"{artifact.name}.md"] = render.markdown(artifact)
                texts[f"{artifact.name}.csv"] = render.tidy(artifact.records)
                texts[f"{artifact.name}.tex"] = render.latex(artifact)
        claims = {"claims": [verdict.as_dict() for verdict in self.claims]}
        texts["claims.json"] = json.dumps(claims, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        texts["report.html"] = page(self, {name: svg for name, (svg, _) in pictures.items()})
        files = {name: text.encode("utf-8", "backslashreplace") for name, text in texts.items()}
        for name, (svg, png) in pictures.items():
            files |= {f"{name}.svg": svg, f"{name}.png": png}
        return files

    def _draw(self, figure: Figure) -> tuple[bytes, bytes] | None:
        from plat_analysis import style

        self._draw_failures.pop(figure.name, None)
        try:
            return style.images(figure)
        except Exception as error:
            where = self.places.get(figure.name, str(self.experiment.path))
            self._draw_failures[figure.name] = Failure.of(f"the figure {figure.name!r}", error, where)
            return None

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


def build_report(frames: Frames, experiment: Experiment, provenance: Provenance | None = None) -> Report:
    """Every artifact and claim of an experiment file.

    SpecError when an entry of the file cannot work for its matrix. An entry that fails all the same while it is built
    ends up in `failures`, and the others are made.
    """
    check_entries(experiment)
    artifacts: list[Table | Figure] = []
    failures: list[Failure] = []
    origins: list[str] = []
    for index, entry in enumerate(experiment.report):
        where = place(experiment, "report", index)
        try:
            built = _build(frames, experiment, entry, where)
        except Exception as error:
            failures.append(Failure.of(f"the report entry {entry.get('builder')!r}", error, where))
            continue
        artifacts += built
        origins += [where] * len(built)
    _name_apart(artifacts)
    claims, claim_failures = run_checks(frames, experiment)
    values: dict[str, float] = {}
    for artifact in artifacts:
        values |= {_metric_name(name): float(value) for name, value in artifact.values.items()}
    return Report(
        experiment,
        Results(frames, experiment),
        artifacts,
        claims,
        values,
        provenance,
        [*failures, *claim_failures],
        {artifact.name: where for artifact, where in zip(artifacts, origins, strict=True)},
    )


def _build(frames: Frames, experiment: Experiment, entry: dict[str, Any], where: str) -> list[Table | Figure]:
    builder = plugins.find("plat.reports", str(entry["builder"]), where)
    arguments = {key: value for key, value in entry.items() if key != "builder"}
    built = plugins.call(builder, frames, experiment, arguments, where)
    artifacts = list(built) if isinstance(built, list | tuple) else [built]
    if not all(isinstance(artifact, Table | Figure) for artifact in artifacts):
        raise SpecError(
            "it gave something else than tables and figures",
            where=where,
            mend="a builder returns a list of plat_analysis.artifact.Table and Figure",
        )
    return artifacts


def _name_apart(artifacts: list[Table | Figure]) -> None:
    """File names must be plain, and no two artifacts may share one."""
    taken: set[str] = {"runs", "claims", "report"}
    for artifact in artifacts:
        stem = re.sub(r"[^A-Za-z0-9_.-]+", "-", artifact.name).strip("-.")[:100] or "artifact"
        name = next(n for i in range(len(artifacts) + 1) if (n := stem if i == 0 else f"{stem}-{i + 1}") not in taken)
        artifact.name = name
        taken.add(name)


def _metric_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_./ -]+", "-", name)
