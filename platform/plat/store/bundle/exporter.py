"""Export runs of this home as a bundle (`plat export`).

Only whole runs are exported; a run that has not ended or is damaged is left out and named with the reason. A failed run
is exported as a failure, so that tables made from the bundle show why it is missing. Exporting the same runs twice
gives the same bytes.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plat.errors import BundleError, HomeError, SpecError
from plat.plain_files import read_text
from plat.spec.reading.paper_file import paper_file
from plat.store.bundle.format import Bundle, schema
from plat.store.bundle.run import BundledRun, read_run
from plat.store.bundle.writing import write_bundle
from plat.store.home import Home
from plat.store.mlflow.run_record import read_record
from plat.store.run_directory.state import STATES, run_state

if TYPE_CHECKING:
    import pyarrow

    from plat.spec.expansion.experiment import Experiment

SHOWN = 5  # damaged runs named in the error when nothing can be exported


@dataclass
class ExportReport:
    """The numbers of exported `done` and `failed` runs; `left_out` maps the names of the other runs to the reason."""

    done: int = 0
    failed: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


def export_bundle(
    home: Home, experiments: Sequence[Experiment], folder: Path, *, overrides: Sequence[str] = ()
) -> ExportReport:
    """Write these experiment files and their runs as a bundle; replace an earlier bundle in `folder`.

    overrides  overrides of the command line, recorded in the manifest

    Raises BundleError if no run can be exported, `folder` has other content, or the bundle cannot be written. Raises
    SpecError if two different files would have one name in the bundle, HomeError as `Home.checked`.
    """
    home.checked()
    report = ExportReport()
    runs: list[BundledRun] = []
    for run_id, name in sorted({run.id: run.name for experiment in experiments for run in experiment.runs}.items()):
        run, problem = _read(home, run_id)
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
        tables=_tables(runs),
        experiments=[
            {
                "name": experiment.name,
                "title": experiment.title,
                "wanted": len(experiment.runs),
                "runs": [run.id for run in experiment.runs if run.id in exported],
                **_plans(home, experiment),
            }
            for experiment in experiments
        ],
        overrides=list(overrides),
        files=experiment_files(experiments),
    )
    write_bundle(bundle, folder)
    return report


def _plans(home: Home, experiment: Experiment) -> dict[str, Any]:
    """Return `plans`, the plans of a file with `decide` as the home's store has them; {} without any."""
    if experiment.decide is None:
        return {}
    from plat.store.mlflow.plan_record import read_plans

    plans = [asdict(plan) for plan in read_plans(home.store_uri(), experiment.name)]
    return {"plans": plans} if plans else {}


def _nothing_to_export(home: Home, left_out: Mapping[str, str]) -> BundleError:
    """Return the error for an export without runs: it names damaged runs and counts the others by state."""
    states = Counter(problem for problem in left_out.values() if problem in STATES)
    damaged = [f"{name}: {problem}" for name, problem in left_out.items() if problem not in STATES]
    if not damaged:
        return BundleError(
            "there is nothing to export: none of these runs has ended here",
            where=str(home.runs),
            fix="`plat sweep` (for a search: `plat tune`) does them; --home DIR (or PLAT_HOME) names another home",
        )
    reasons = damaged[:SHOWN] + ([f"and {len(damaged) - SHOWN} more"] if len(damaged) > SHOWN else [])
    reasons += [f"{count} {state}" for state, count in states.items()]
    return BundleError(
        f"there is nothing to export: {'; '.join(reasons)}",
        where=str(home.runs),
        fix="`plat why RUN` says how to fix a damaged run; `plat sweep` (for a search: `plat tune`) does missing ones",
    )


def _read(home: Home, run_id: str) -> tuple[BundledRun | None, str]:
    """Return (run, "") of a directory, or (None, reason) if it cannot be exported."""
    paths = home.run(run_id)
    try:
        run = read_run(paths)
    except (HomeError, OSError, ValueError) as error:
        return None, str(error)
    if run is None:
        return None, run_state(paths).state
    record = read_record(paths)
    if record is None or record.damage:
        return None, f"damaged: {record.damage if record else 'its meta.json or config.yaml cannot be read'}"
    return run, ""


def experiment_files(experiments: Sequence[Experiment]) -> dict[str, str]:
    """Return path -> text of the experiment files and their papers; raises SpecError if two share a path."""
    files: dict[str, str] = {}
    for experiment in experiments:
        paths = {f"{experiment.path.stem}.yaml": experiment.path}  # several searches may share one file
        if experiment.paper is not None:
            paths[f"papers/{experiment.paper}.yaml"] = paper_file(experiment.path, experiment.paper)
        for name, path in paths.items():
            text = read_text(path)
            if files.setdefault(name, text) != text:
                raise SpecError(
                    f"two different files would be {name} in one folder", where=str(path), fix="export them apart"
                )
    return files


# -- tables -----------------------------------------------------------------------------------------------------------


def _tables(runs: Sequence[BundledRun]) -> dict[str, pyarrow.Table]:
    import pyarrow as pa

    metrics = [(run.id, *metric) for run in runs for metric in run.metrics]
    tables = [(run.id, table.name, table.step, table.time, _text(table.data)) for run in runs for table in run.tables]
    return {
        "runs": pa.Table.from_pylist([_run_row(run) for run in runs], schema=schema("runs")),
        "metrics": _columns("metrics", metrics),
        "tables": _columns("tables", tables),
    }


def _run_row(run: BundledRun) -> dict[str, Any]:
    """Return the columns of `schema("runs")`: the first ones are for readers, the others rebuild the run."""
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


def _columns(kind: str, rows: Sequence[tuple[Any, ...]]) -> pyarrow.Table:
    import pyarrow as pa

    columns: Mapping[str, Any] = {name: [row[i] for row in rows] for i, name in enumerate(schema(kind).names)}
    return pa.Table.from_pydict(columns, schema=schema(kind))


def _text(value: Any) -> str:
    """Return ASCII JSON: Parquet text cannot hold a lone surrogate otherwise."""
    return json.dumps(value)
