"""`plat base list|build|verify`: the base models of the stand-ins."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from plat.app.loading import load_experiments, split
from plat.cli.common import RUNS_FAILED, Arguments, HomeOption, JsonOption, VerbGroup, print_json, verb
from plat.cli.screen.output import tell
from plat.errors import CheckpointError, PlatError, SpecError
from plat.processes.cores import usable_cores
from plat.store.home import Home
from plat.units import counted
from plat_rl.verbs import base_view

if TYPE_CHECKING:
    from plat.spec.expansion.experiment import Experiment, Run
    from plat_rl.run_config import ModelConfig

JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Base models built at once [one for each core].")
]


class Wanted(NamedTuple):
    """A requested base model, and the experiment files that name it."""

    model: ModelConfig
    named_by: list[str]


@verb()
def list_bases(arguments: Arguments = None, home: HomeOption = None, as_json: JsonOption = False) -> int:
    """Show the existing base models, and those that experiment files name.

    Without files, reads those in the folder experiments/.
    """
    from plat_rl.embedded.base_model.base_record import SHIPPED, records_in
    from plat_rl.embedded.base_model.recipe import built_bases

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
            rows.append(base_view.row(record, where, asked.named_by if asked else ()))
        damaged += unreadable
    there = {Path(row["folder"]).name for row in rows}
    missing = [
        base_view.missing_row(key, base.model, base.named_by) for key, base in wanted.items() if key not in there
    ]
    if as_json:
        wrong_ones = [{"what": wrong.what, "where": wrong.where} for wrong in damaged]
        print_json({"bases": rows, "missing": missing, "damaged": wrong_ones})
    else:
        print(base_view.table(rows, missing))
        for wrong in damaged:
            tell(wrong.render())
    return RUNS_FAILED if damaged else 0


@verb()
def build(
    arguments: Arguments = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Folder of base models [the home's].")
    ] = None,
    jobs: JobsOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Build the base models that files or overrides name.

    For example: plat base build model=qwen2.5-3b model.base.seed=1. Existing ones are kept; with --out, shipped ones
    are built again.
    """
    from plat_rl.embedded.base_model.base_record import shipped_base
    from plat_rl.embedded.base_model.builds import build_all
    from plat_rl.embedded.base_model.recipe import built_bases

    wanted = _wanted(arguments)
    found = (shipped_base(base.model) for base in wanted.values())
    shipped = [] if out else [record for record in found if record is not None]
    hashes = {record.folder.name for record in shipped}
    place = out or built_bases(Home.find(home).create().cache)
    left = [base.model for key, base in wanted.items() if key not in hashes]
    records = [*shipped, *(build_all(left, place, jobs or usable_cores(), tell) if left else [])]
    rows = [base_view.row(record, "shipped" if record in shipped else "built here") for record in records]
    if as_json:
        print_json({"bases": rows})
    else:
        for row in rows:
            print(f"{row['model']} (seed {row['seed']}): {row['where']}, content {row['sha256'][:12]}, {row['folder']}")
    return 0


@verb()
def verify(
    arguments: Arguments = None,
    instances: Annotated[int, typer.Option("--instances", min=1, help="Held-out instances of each task.")] = 512,
    margin: Annotated[float, typer.Option("--margin", min=0, max=1, help="A loss of success that counts.")] = 0.05,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="Keep the rebuilt ones in this folder.")
    ] = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Build shipped base models again, and compare them with the rebuilt ones in each task.

    Without files or overrides, builds all of them. Exit code 3 unless every rebuilt one is as good in every task.
    """
    from plat.spec.expansion.experiment import build_run, config_object
    from plat_rl.embedded.base_model.base_record import SHIPPED, records_in, shipped_base
    from plat_rl.embedded.base_model.builds import verify_all
    from plat_rl.embedded.base_model.compare import AS_GOOD
    from plat_rl.embedded.spec import SPEC

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
    runs = [build_run([f"task={task}", f"eval.heldout={instances}"]) for task in records[0].recipe["tasks"]]
    configs = [config_object(run, SPEC) for run in runs]
    tell(f"building {counted(len(records), 'base model')} again; about a minute each")
    results = verify_all(records, configs, margin, jobs or usable_cores(), tell, out)
    good = all(task.verdict == AS_GOOD for result in results for task in result.tasks)
    if as_json:
        print_json(
            {"as_good": good, "margin": margin, "bases": [base_view.verification_json(result) for result in results]}
        )
    else:
        for result in results:
            print(base_view.verification(result))
        print(f"as good: the 95 % interval of the difference excludes a loss of {margin:.0%} or more")
    return 0 if good else RUNS_FAILED


GROUP = VerbGroup(
    "List, build and verify base models of the stand-ins.", {"list": list_bases, "build": build, "verify": verify}
)


def _wanted(arguments: Sequence[str] | None) -> dict[str, Wanted]:
    """Return the bases named by the files, or by the overrides of one run, by folder name; SpecError for none."""
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
    from plat_rl.embedded.base_model.recipe import base_key
    from plat_rl.run_config import ModelConfig

    sections = {id(run.config["model"]): run.config["model"] for run in runs if run.trainer == "embedded"}
    for section in sections.values():  # thousands of runs share a few config sections
        model = build_object(ModelConfig, section)
        if model.path is None:
            entry = wanted.setdefault(base_key(model), Wanted(model, []))
            if name and name not in entry.named_by:
                entry.named_by.append(name)
