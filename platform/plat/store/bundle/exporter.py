"""Runs of this home -> a bundle (`plat export`).

Promised: only whole runs travel. A run that is not done, or whose files are damaged, is left out and named with the
reason. A failed run travels as a failure, so that tables made from the bundle say why it is missing. Exporting the same
runs twice gives the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import BundleError, HomeError, SpecError
from plat.plain_files import read_text
from plat.spec.paper_file import paper_file
from plat.store.bundle.format import Bundle, schema
from plat.store.bundle.run import BundledRun, read_run
from plat.store.bundle.writing import write_bundle
from plat.store.home import Home
from plat.store.mlflow.record import read_record
from plat.store.run_directory.state import STATES, run_state

if TYPE_CHECKING:
    import pyarrow

    from plat.spec.experiment import Experiment

SHOWN = 5  # damaged runs named in the error when nothing can be exported


@dataclass
class ExportReport:
    """What was exported: `done` and `failed` runs; `left_out` maps the names of the others to the reason."""

    done: int = 0
    failed: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


def export_bundle(
    home: Home,
    experiments: Sequence[Experiment],
    folder: Path,
    *,
    overrides: Sequence[str] = (),
    with_diff: bool = False,
) -> ExportReport:
    """Write the runs of these experiment files, and the files, as a bundle; BundleError when no run has ended.

    overrides  what the command line changed in the files, noted in the manifest
    with_diff  carry the text of uncommitted code changes, too
    """
    home.checked()
    report = ExportReport()
    runs: list[BundledRun] = []
    for run_id, name in sorted({run.id: run.name for experiment in experiments for run in experiment.runs}.items()):
        run, problem = _read(home, run_id, with_diff)
        if run is None:
            report.left_out[name] = problem
            continue
        runs.append(run)
        report.done += run.result is not None
        report.failed += run.result is None
    if not runs:
        raise _nothing_to_export(home, report.left_out)
    exported = {run.id for run in runs}
    bundle = Bundle(
        tables={"runs": _runs_table(runs), "metrics": _metrics_table(runs), "tables": _tables_table(runs)},
        experiments=[_described(experiment, exported) for experiment in experiments],
        overrides=list(overrides),
        files=_files(experiments),
    )
    write_bundle(bundle, folder)
    return report


def _nothing_to_export(home: Home, left_out: Mapping[str, str]) -> BundleError:
    """The error when no run can be exported: it names the damaged ones and counts the others by their state."""
    states = Counter(problem for problem in left_out.values() if problem in STATES)
    damaged = [f"{name}: {problem}" for name, problem in left_out.items() if problem not in STATES]
    if not damaged:
        return BundleError(
            "there is nothing to export: none of these runs has ended here",
            where=str(home.runs),
            mend="`plat sweep` (of a search: `plat tune`) does them; --home DIR (or PLAT_HOME) names another home",
        )
    reasons = damaged[:SHOWN] + ([f"and {len(damaged) - SHOWN} more"] if len(damaged) > SHOWN else [])
    reasons += [f"{count} {state}" for state, count in states.items()]
    return BundleError(
        f"there is nothing to export: {'; '.join(reasons)}",
        where=str(home.runs),
        mend="`plat why RUN` says how to mend a damaged run; `plat sweep`, of a search `plat tune`, does missing ones",
    )


def _read(home: Home, run_id: str, with_diff: bool) -> tuple[BundledRun | None, str]:
    """The run of a directory, or None and why it cannot be exported."""
    paths = home.run(run_id)
    try:
        run = read_run(paths, with_diff)
    except (HomeError, OSError, UnicodeDecodeError) as error:
        return None, str(error)
    if run is None:
        return None, run_state(paths).state
    record = read_record(paths)
    if record is None or record.damage:
        return None, f"damaged: {record.damage if record else 'its meta.json or config.yaml cannot be read'}"
    return run, ""


def _described(experiment: Experiment, exported: set[str]) -> dict[str, Any]:
    runs = [run.id for run in experiment.runs if run.id in exported]
    return {"name": experiment.name, "title": experiment.title, "wanted": len(experiment.runs), "runs": runs}


def _files(experiments: Sequence[Experiment]) -> dict[str, str]:
    """The experiment files and the papers they name, under the paths that a reader of them expects."""
    files: dict[str, str] = {}
    for experiment in experiments:
        paths = {f"{experiment.path.stem}.yaml": experiment.path}  # several searches may be of one file
        if experiment.paper is not None:
            paths[f"papers/{experiment.paper}.yaml"] = paper_file(experiment.path, experiment.paper)
        for name, path in paths.items():
            text = read_text(path)
            if files.setdefault(name, text) != text:
                raise SpecError(
                    f"two different files would be {name} in the bundle", where=str(path), mend="export them apart"
                )
    return files


# -- tables -----------------------------------------------------------------------------------------------------------


def _runs_table(runs: Sequence[BundledRun]) -> pyarrow.Table:
    import pyarrow as pa

    return pa.Table.from_pylist([_run_row(run) for run in runs], schema=schema("runs"))


def _run_row(run: BundledRun) -> dict[str, Any]:
    """The columns of `schema("runs")`. The first ones are for readers of the bundle; the others make the run again."""
    meta = run.meta
    code = meta.get("code") or {}
    return {
        "run_id": run.id,
        "name": run.name,
        "outcome": run.outcome,
        "trainer": meta.get("trainer"),
        "trainer_version": meta.get("trainer_version"),
        "axes": _text(meta.get("axes", {})),
        "base_sha256": run.base_sha256,
        "code_commit": code.get("commit"),
        "code_diff_sha256": run.diff_sha256,
        "versions": _text(code.get("versions", {})),
        "config": run.config,
        "meta": _text(meta),
        "result": None if run.result is None else _text(run.result),
        "code": run.code,
        "diff": run.diff,
        "metric_rows": len(run.metrics),
        "table_rows": len(run.tables),
        "attempt": run.attempt,
        "attempt_meta": _text(run.attempt_meta),
        "attempt_outcome": _text(run.attempt_outcome),
    }


def _metrics_table(runs: Sequence[BundledRun]) -> pyarrow.Table:
    rows = [(run.id, *metric) for run in runs for metric in run.metrics]
    return _columns("metrics", ("run_id", "key", "step", "value", "time"), rows)


def _tables_table(runs: Sequence[BundledRun]) -> pyarrow.Table:
    rows = [(run.id, table.name, table.step, table.time, _text(table.data)) for run in runs for table in run.tables]
    return _columns("tables", ("run_id", "name", "step", "time", "data"), rows)


def _columns(kind: str, names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> pyarrow.Table:
    import pyarrow as pa

    columns: Mapping[str, Any] = {name: [row[i] for row in rows] for i, name in enumerate(names)}
    return pa.Table.from_pydict(columns, schema=schema(kind))


def _text(value: Any) -> str:
    """JSON with ASCII letters only: a lone surrogate has no other spelling in a Parquet text."""
    return json.dumps(value)
