"""`plat base list|build|verify`: the base models of the stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from typing_extensions import TypedDict

from plat.cli.common import RUNS_FAILED, Arguments, HomeOption, VerbGroup, verb
from plat.cli.result import Result
from plat.cli.schemas.lines import ErrorData
from plat.cli.screen.output import tell
from plat.cli.screen.table import table as text_table
from plat.cli.screen.table import terminal_width
from plat.errors import CheckpointError, PlatError, SpecError
from plat.processes.own_process import usable_cores
from plat.units import counted

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run
    from plat_rl.embedded.base_model.base_record import BaseRecord
    from plat_rl.embedded.base_model.builds import Verification
    from plat_rl.run_config import ModelConfig

JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Base models built at once [one for each core].")
]


SEES = ("model=qwen2.5-vl-3b", "train.pictures=true")  # a run on pictures


class Wanted(NamedTuple):
    """A requested base model, and the experiment files that name it."""

    model: ModelConfig
    named_by: list[str]


class BasesData(TypedDict):
    """plat base list"""

    bases: list[dict[str, Any]]
    missing: list[dict[str, Any]]
    """Base models that files name and that are not built yet."""
    damaged: list[ErrorData]


class BuiltData(TypedDict):
    """plat base build"""

    bases: list[dict[str, Any]]


class VerifiedData(TypedDict):
    """plat base verify"""

    as_good: bool
    margin: float
    """A loss of success that counts, from 0 to 1."""
    bases: list[dict[str, Any]]


@verb(BasesData)
def list_bases(arguments: Arguments = None, home: HomeOption = None) -> Result:
    """Show the existing base models, and those that experiment files name.

    Without files, reads those in the folder experiments/.
    """
    from plat.app.loading import load_experiments, split
    from plat.store.home import Home
    from plat_rl.embedded.base_model.base_record import SHIPPED, built_bases, records_in

    files, overrides = split(arguments)
    wanted: dict[str, Wanted] = {}
    named = files or sorted(Path("experiments").glob("*.yaml"))
    for file in named:
        try:
            _add_bases(wanted, load_experiments([str(file), *overrides]))
        except PlatError as error:
            if files:
                raise
            tell(f"{file} is left out: {error.what}")
    rows, damaged = [], []
    for where, folder in (("shipped", SHIPPED), ("built here", built_bases(Home.find(home).cache))):
        records, unreadable = records_in(folder)
        for record in records:
            asked = wanted.get(record.folder.name)
            rows.append(base_row(record, where, asked.named_by if asked else ()))
        damaged += unreadable
    there = {Path(row["folder"]).name for row in rows}
    missing = [missing_row(key, base.model, base.named_by) for key, base in wanted.items() if key not in there]
    for wrong in damaged:
        tell(wrong.render())
    data = {"bases": rows, "missing": missing, "damaged": [wrong.to_json() for wrong in damaged]}
    return Result(data, lambda: table(rows, missing), RUNS_FAILED if damaged else 0)


@verb(BuiltData)
def build(
    arguments: Arguments = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of base models [the home's].")
    ] = None,
    jobs: JobsOption = None,
    home: HomeOption = None,
) -> Result:
    """Build the base models that files or overrides name.

    For example: plat base build model=qwen2.5-3b model.base.seed=1. Existing ones are kept; with --out, shipped ones
    are built again.
    """
    from plat.store.home import Home
    from plat_rl.embedded.base_model.base_record import built_bases, shipped_base
    from plat_rl.embedded.base_model.builds import build_all

    wanted = _wanted(arguments)
    found = (shipped_base(base.model) for base in wanted.values())
    shipped = [] if out else [record for record in found if record is not None]
    hashes = {record.folder.name for record in shipped}
    place = out or built_bases(Home.find(home).create().cache)
    left = [base.model for key, base in wanted.items() if key not in hashes]
    records = [*shipped, *(build_all(left, place, jobs or usable_cores(), tell) if left else [])]
    rows = [base_row(record, "shipped" if record in shipped else "built here") for record in records]
    lines = [
        f"{row['model']} (seed {row['seed']}): {row['where']}, content {row['sha256'][:12]}, {row['folder']}"
        for row in rows
    ]
    return Result({"bases": rows}, "\n".join(lines))


@verb(VerifiedData)
def verify(
    arguments: Arguments = None,
    instances: Annotated[int, typer.Option("--instances", min=1, help="Held-out instances of each task.")] = 512,
    margin: Annotated[float, typer.Option("--margin", min=0, max=1, help="A loss of success that counts.")] = 0.05,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the rebuilt ones in this folder.")
    ] = None,
    jobs: JobsOption = None,
) -> Result:
    """Build shipped base models again, and compare them with the rebuilt ones in each task.

    Without files or overrides, builds all of them. Exit code 3 unless every rebuilt one is as good in every task.
    """
    from plat.spec.expansion.experiment import build_run, config_object
    from plat_envs.api import PICTURE_RENDERINGS
    from plat_rl.embedded.base_model.base_record import SHIPPED, records_in, shipped_base
    from plat_rl.embedded.base_model.builds import AS_GOOD, verify_all
    from plat_rl.embedded.spec import EmbeddedTrainer

    if arguments:
        records = []
        for base in _wanted(arguments).values():
            if (record := shipped_base(base.model)) is None:
                what = f"no base model of this recipe is shipped: {base.model.name}, seed {base.model.base.seed}"
                raise CheckpointError(what, fix="`plat base list` shows those that are")
            records.append(record)
    else:
        records, damaged = records_in(SHIPPED)
        if damaged:
            raise damaged[0]
    if not records:
        raise SpecError("no base model is shipped with this version", fix="`plat base list` shows those built here")
    on_text = [record.recipe["tasks"] for record in records if not record.corpora][:1]
    played = dict.fromkeys(("compact", task) for tasks in on_text for task in tasks)
    played |= dict.fromkeys((corpus["rendering"], corpus["task"]) for record in records for corpus in record.corpora)
    runs = [
        build_run([f"task={task}", f"eval.heldout={instances}", *(SEES if rendering in PICTURE_RENDERINGS else ())])
        for rendering, task in played
    ]
    configs = [config_object(run, EmbeddedTrainer()) for run in runs]
    tell(f"building {counted(len(records), 'base model')} again; about a minute each")
    results = verify_all(records, configs, margin, jobs or usable_cores(), tell, out)
    good = all(task.verdict == AS_GOOD for result in results for task in result.tasks)
    data = {"as_good": good, "margin": margin, "bases": [verification_json(result) for result in results]}
    means = f"as good: the 95 % interval of the difference excludes a loss of {margin:.0%} or more"
    text = "\n".join([*map(verification, results), means])
    return Result(data, text, 0 if good else RUNS_FAILED)


GROUP = VerbGroup(
    "List, build and verify base models of the stand-ins.", {"list": list_bases, "build": build, "verify": verify}
)


def _wanted(arguments: Sequence[str] | None) -> dict[str, Wanted]:
    """Return the bases named by the files, or by the overrides of one run, by folder name; SpecError for none."""
    from plat.app.loading import load_experiments, split
    from plat.spec.expansion.experiment import build_run

    files, overrides = split(arguments)
    wanted: dict[str, Wanted] = {}
    if files:
        _add_bases(wanted, load_experiments(arguments))
    else:
        _add(wanted, [build_run(overrides)])
    if not wanted:
        raise SpecError("no run of these starts from a base model", fix="name a model, for example model=qwen2.5-3b")
    return wanted


def _add_bases(wanted: dict[str, Wanted], experiments: Sequence[Experiment]) -> None:
    for experiment in experiments:
        _add(wanted, experiment.runs, experiment.name)


def _add(wanted: dict[str, Wanted], runs: Sequence[Run], name: str = "") -> None:
    """Add the stand-ins that runs of the embedded trainer start from, as named by the file `name`."""
    from plat.spec.composition.schema import build as build_object
    from plat_rl.embedded.base_model.base_record import base_key
    from plat_rl.run_config import ModelConfig

    sections = {id(run.config["model"]): run.config["model"] for run in runs if run.trainer == "embedded"}
    for section in sections.values():  # thousands of runs share a few config sections
        model = build_object(ModelConfig, section)
        if model.path is None:
            entry = wanted.setdefault(base_key(model), Wanted(model, []))
            if name and name not in entry.named_by:
                entry.named_by.append(name)


# Show the base models of `plat base` as JSON rows and as tables.

HEADER = ("model", "seed", "recipe", "content", "parameters", "KB", "where", "named by", "differs in")
IN_A_PIPE = 80  # columns without a terminal, as many files may name a base


def base_row(record: BaseRecord, where: str, named_by: Sequence[str] = ()) -> dict[str, Any]:
    """Return an existing base as a JSON-able row.

    `where` ("shipped" or "built here") and `named_by` become values of the row as they are.
    """
    return {
        "model": record.model,
        "version": record.recipe["base"]["version"],
        "seed": record.recipe["base"]["seed"],
        "recipe_hash": record.recipe_hash,
        "sha256": record.sha256,
        "parameters": record.parameters,
        "bytes": record.size,
        "where": where,
        "settings": record.recipe["base"],
        "folder": str(record.folder),
        "named_by": list(named_by),
    }


def missing_row(key: str, model: ModelConfig, named_by: Sequence[str]) -> dict[str, Any]:
    """Return a base that files name and that is not built yet as a JSON-able row."""
    return {
        "recipe_hash": key.rpartition("-")[2],
        "model": model.name,
        "seed": model.base.seed,
        "settings": asdict(model.base),
        "named_by": list(named_by),
    }


def table(rows: Sequence[dict[str, Any]], missing: Sequence[dict[str, Any]]) -> str:
    """Return a table of the existing bases, then of bases that files name and that are not built yet."""
    lines = []
    for base in [*rows, *missing]:
        names = (base.get("where", "to build"), ", ".join(base["named_by"]), _differs(base, [*rows, *missing]))
        facts = (base["sha256"][:12], base["parameters"], base["bytes"] // 1000) if "sha256" in base else ("", "", "")
        lines.append([base["model"], base["seed"], base["recipe_hash"], *facts, *names])
    room = terminal_width() or IN_A_PIPE
    return text_table(HEADER, lines, room, indent="", drop_empty=True) if lines else "no base models here"


def _differs(base: dict[str, Any], others: Sequence[dict[str, Any]]) -> str:
    """Return the settings other than the seed in which the bases of one model differ: `grounded 0.2`."""
    settings = [other["settings"] for other in others if other["model"] == base["model"]]
    mine = base["settings"]
    differing = [key for key in mine if key != "seed" and any(other.get(key) != mine[key] for other in settings)]
    return ", ".join(f"{key} {mine[key]}" for key in differing)


def verification_json(result: Verification) -> dict[str, Any]:
    """Return the comparison of a shipped base with its rebuilt copy as a JSON-able row.

    It is the row of the shipped base without `named_by`, with `rebuilt_sha256`, `same_bytes`, and `tasks`: the
    comparison of each task.
    """
    return {
        **{key: value for key, value in base_row(result.shipped, "shipped").items() if key != "named_by"},
        "rebuilt_sha256": result.rebuilt.sha256,
        "same_bytes": result.same_bytes,
        "tasks": [asdict(task) for task in result.tasks],
    }


def verification(result: Verification) -> str:
    """Return a sentence and a table with one row for each task; differences are in percentage points."""
    same = "the rebuilt one has the same bytes" if result.same_bytes else "the rebuilt one has other last bits"
    header = ("task", "instances", "shipped", "rebuilt", "difference [95 % interval]", "verdict")
    lines: list[Sequence[Any]] = []
    for task in result.tasks:
        interval = f"{100 * task.difference:+.1f} [{100 * task.low:+.1f}, {100 * task.high:+.1f}]"
        lines.append((task.task, task.instances, f"{task.shipped:.1%}", f"{task.rebuilt:.1%}", interval, task.verdict))
    return f"{result.shipped.model} (seed {result.shipped.recipe['base']['seed']}): {same}\n{text_table(header, lines)}"
