"""The report of an experiment as data, and the facts on where it comes from.

Rebuilding a report must give equal bytes on any machine. So its date is the end of the newest run, and its command has
no absolute path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import compress

from plat.spec.expansion.experiment import Experiment
from plat.words.metric_names import SUCCESS, VAL_SUCCESS
from plat.words.outcomes import FINISHED
from plat.words.usage import SUMS, TAG, Rates, Usage, total
from plat_analysis.artifact import DASH, Cell, Column, Figure, Row, Table, Tone, number
from plat_analysis.claims.engine import Verdict
from plat_analysis.claims.reference import Earlier
from plat_analysis.data.labels import label, model_that_ran
from plat_analysis.data.results import Results, RunView, spell
from plat_analysis.plugins.builders import Failure
from plat_analysis.quantities.quantity import (
    Measurement,
    fall_after_peak,
    final_heldout_score,
    heldout_score,
    last_score,
    peak_score,
)
from plat_analysis.shown_text import printable

RECORDED = "recorded"  # the trainer of imported runs
VERSION = "tag.plat.versions."  # in `RunView.facts`

# List every wanted run with its outcome, the model that ran, its peak and its end.


def runs_table(results: Results) -> Table:
    """Return a line for each run of the file, in its order, with or without a result; without empty columns."""
    axes = list(results.experiment.axes) or sorted({axis for run in results.runs for axis in run.run.axes})
    rate = "validation %" if VAL_SUCCESS in results.headlines else f"{results.metric(SUCCESS)} %"
    heads = [Column(axis, numeric=False) for axis in axes]
    table = Table(
        name="runs",
        title="Runs",
        columns=[
            Column("run", numeric=False),
            *heads,
            Column("outcome", numeric=False),
            Column("model that ran", numeric=False),
            *(Column(title, rate) for title in ("peak", "at step", "last", "at step")),
            Column("peak", "held-out %"),
            Column("final", "held-out %"),
            Column("fell after its peak", numeric=False),
        ],
        rows=[],
        printed=False,
    )
    for run in results.runs:
        _add(table, results, run, axes)
    filled = [any(row.cells[at].text not in ("", DASH) for row in table.rows) for at in range(len(table.columns))]
    table.columns = list(compress(table.columns, filled))
    table.rows = [Row(tuple(compress(row.cells, filled))) for row in table.rows]
    return table


def _add(table: Table, results: Results, run: RunView, axes: list[str]) -> None:
    peak, last, heldout = (score(results, run) for score in (peak_score, last_score, heldout_score))
    final_heldout = final_heldout_score(results, run)
    fall = fall_after_peak(results, run)
    ended = run.outcome or run.missing
    model = model_that_ran([run])
    table.records.append(
        {
            "run_id": run.id,
            "name": run.run.name,
            **{axis: run.run.axes.get(axis) for axis in axes},
            "outcome": ended,
            "model_that_ran": model,
            "peak": _value(peak),
            "peak_step": peak.step if peak else None,
            "last": _value(last),
            "last_step": last.step if last else None,
            "heldout": _value(heldout),
            "heldout_final": _value(final_heldout),
            "fell_after_peak": str(fall) if fall else "",
        }
    )
    tone: Tone = "missing" if run.missing else "dim" if ended == FINISHED else ""
    cells = (
        Cell(run.id, title=run.run.name),
        *(Cell(label(spell(run.run.axes.get(axis, "")))) for axis in axes),
        Cell(ended, tone=tone),
        Cell(model, title=run.tag("plat.summary.model_really") or ""),
        _percent(peak),
        _step(peak),
        _percent(last),
        _step(last),
        _percent(heldout),
        _percent(final_heldout),
        Cell("↓ fell" if fall else "", tone="missing" if fall else "", title=str(fall) if fall else ""),
    )
    table.rows.append(Row(cells))


def _value(score: Measurement | None) -> float | None:
    return score.value if score else None


def _percent(score: Measurement | None) -> Cell:
    return Cell(number(100 * score.value) if score else DASH)


def _step(score: Measurement | None) -> Cell:
    return Cell(DASH if score is None or score.step is None else str(score.step))


@dataclass(frozen=True)
class Provenance:
    """Hold the facts that the command line knows and the store does not.

    command    what makes this report again, e.g. `plat report experiments/table4.yaml scale=smoke`, without absolute
               paths; default: `plat report`, the file's name and the overrides
    notes      warnings on the runs, one sentence each
    overrides  the overrides of the command line, as typed
    versions   package -> version, of what drew the report, e.g. {"plat": "0.2.0"}
    plan       when the plan of `decide` was written, in words; "" without one
    published  what a logbook says beside that; None in a report
    rates      what the user pays, for the price of the runs; None: their time and energy alone
    """

    command: str = ""
    overrides: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    plan: str = ""
    rates: Rates | None = None
    published: Published | None = None


@dataclass(frozen=True)
class Published:
    """Hold what the page of a logbook says so that others can do the runs again.

    folder    of the files of the tables and figures, beside the page
    file      the experiment file, relative to the page
    commands  what makes the runs, the report and the verdicts again, in the folder of the logbook
    files     names of the files in `folder`
    is_clean  False where names of the machine or secrets were replaced in the experiment file
    is_recorded  True for runs that others made and plat imported
    """

    folder: str
    file: str
    commands: tuple[str, ...]
    files: tuple[str, ...] = ()
    is_clean: bool = True
    is_recorded: bool = False

    @property
    def how(self) -> str:
        """Return what a reader must know before the commands."""
        text = "In this folder, with the code of the runs"
        if self.is_recorded:
            text = (
                "Others made these runs; their recordings are not in this folder. Import them into the folder that "
                f"`recorded.folder` of {self.file} names, beside that file; then, in this folder"
            )
        if self.is_clean:
            return f"{text}:"
        return f"{text}, once `…/` and `***` in {self.file} are replaced by your own paths and keys:"


def environment_facts(runs: Iterable[RunView]) -> list[tuple[str, str]]:
    """Return (name, text) pairs on the code, machines and packages of runs; unknown facts are left out."""
    found: dict[str, dict[str, None]] = {"code": {}, "machine": {}, "packages": {}}
    for run in runs:
        if commit := run.tag("plat.code.commit"):
            dirty = " with uncommitted changes" if run.tag("plat.code.dirty") == "true" else ""
            found["code"][f"commit {commit[:12]}{dirty}"] = None
        machine = {key: run.tag(f"plat.{key}") for key in ("numerics", "hardware", "hardware.cpu", "hardware.gpus")}
        if machine["numerics"]:
            machine.pop("hardware.cpu"), machine.pop("hardware")
        found["machine"][", ".join(dict.fromkeys(filter(None, machine.values())))] = None
        versions = {
            name.removeprefix(VERSION): run.tag(name.removeprefix("tag."))
            for name in run.facts
            if str(name).startswith(VERSION)
        }
        found["packages"][", ".join(f"{name} {version}" for name, version in sorted(versions.items()) if version)] = (
            None
        )
    return [(name, "; ".join(sorted(filter(None, texts)))) for name, texts in found.items() if any(texts)]


def used_by(runs: Iterable[RunView]) -> tuple[Usage, int]:
    """Return what the runs with a record of it used together, and their number."""
    recorded = [
        Usage.of({name: run.tag(f"{TAG}{name}") for name in (*SUMS, "gpu_shared", "unrecorded")})
        for run in runs
        if run.tag(f"{TAG}seconds") is not None
    ]
    return total(recorded), len(recorded)


def cost_text(runs: Sequence[RunView], rates: Rates | None) -> str:
    """Return what the runs used in words, e.g. `1.9 h of runs, 3.4 h of CPU time`; "" if no run has a record of it."""
    used, count = used_by(runs)
    some = "" if count == len(runs) else f" ({count} of {len(runs)} runs have a record of it)"
    return used.text(rates) + some if count else ""


def provenance_facts(
    provenance: Provenance | None, experiment: Experiment, runs: Iterable[RunView]
) -> list[tuple[str, str]]:
    """Return (name, text) pairs for the page, in order, e.g. ("scale", "smoke"); unknown facts are left out."""
    runs = list(runs)
    known = provenance or Provenance()
    command = known.command or " ".join(["plat report", experiment.path.name, *known.overrides])
    trainers = sorted({version for run in runs if (version := run.tag("plat.trainer"))})
    ends = [end for run in runs if (end := run.tag("plat.ended"))]
    drawn_with = ", ".join(f"{package} {version}" for package, version in sorted(known.versions.items()))
    is_recorded = bool(runs) and all(run.run.trainer == RECORDED for run in runs)
    own = [
        ("cost", cost_text(runs, known.rates)),
        ("newest run ended", max(ends, default="")),
        ("trained with", ", ".join(trainers)),
        *(environment_facts(runs) if known.published else ()),
    ]
    facts = [
        ("command", command),
        ("overrides", " ".join(known.overrides) if provenance else ""),
        ("plan", known.plan),
        ("scale", experiment.scale),
        *([("runs", "made by others, and imported: plat replayed their recordings")] if is_recorded else own),
        ("drawn with", drawn_with),
    ]
    return [(name, printable(text)) for name, text in facts if text]


@dataclass
class Report:
    """Hold tables and figures in the order of the experiment file, then the verdicts.

    values    the key numbers, with names that MLflow accepts
    failures  entries that could not be built, and figures that could not be drawn (known once the files were made)
    """

    experiment: Experiment
    results: Results
    artifacts: list[Table | Figure]
    claims: list[Verdict]
    values: dict[str, float]
    provenance: Provenance | None = None
    build_failures: list[Failure] = field(default_factory=list)
    places: dict[str, str] = field(default_factory=dict)  # artifact name -> where the file asks for it
    draw_failures: dict[str, Failure] = field(default_factory=dict)
    pictures: dict[str, dict[str, bytes]] = field(default_factory=dict)  # figure -> kind -> file, once drawn
    reference: dict[str, Earlier] = field(default_factory=dict)  # claim id -> what the reference results found

    @cached_property
    def runs_table(self) -> Table:
        """Return every run of the experiment, as a table."""
        return runs_table(self.results)

    def release(self) -> None:
        """Free the measurements once the files are written; keep the table of runs, for a page of several reports."""
        _ = self.runs_table
        self.results.release()

    @property
    def failures(self) -> list[Failure]:
        return [*self.build_failures, *self.draw_failures.values()]

    @property
    def warnings(self) -> list[str]:
        """Return warnings on the runs, one sentence each."""
        return [*self.results.warnings(), *(self.provenance.notes if self.provenance else ())]
