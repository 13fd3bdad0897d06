"""`plat base list|build|verify`: the base models that stand-ins start from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from plat.cli import base_view
from plat.cli.common import (
    Arguments,
    HomeOption,
    JsonOption,
    load_experiments,
    print_json,
    split,
)
from plat.cli.output import tell
from plat.cli.settings import verb
from plat.errors import CheckpointError, PlatError, SpecError
from plat.store.home import Home
from plat.units import counted

if TYPE_CHECKING:
    from plat.trainer.config import ModelConfig
    from plat.trainer.embedded.base_model.record import BaseRecord

NOT_AS_GOOD = 3  # exit code, as of runs that failed
JobsOption = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, metavar="N", help="Bases at once [one for each core].")
]


@dataclass
class Wanted:
    """A base that somebody asks for, and the experiment files that do."""

    model: ModelConfig
    named_by: list[str] = field(default_factory=list)


@verb()
def list_bases(arguments: Arguments = None, home: HomeOption = None, as_json: JsonOption = False) -> int:
    """Show the base models that are there, and those that experiment files name.

    Without files, those of the folder experiments/.
    """
    from plat.trainer.embedded.base_model.recipe import built_bases
    from plat.trainer.embedded.base_model.record import SHIPPED, records_in

    wanted = _wanted_by_files(arguments)
    rows, damaged = [], []
    for where, folder in (("shipped", SHIPPED), ("built here", built_bases(Home.find(home).cache))):
        records, wrong = records_in(folder)
        rows += [base_view.row(record, where, _askers(wanted, record)) for record in records]
        damaged += wrong
    there = {Path(row["folder"]).name for row in rows}
    missing = [
        {
            "recipe_hash": key.rpartition("-")[2],
            "model": base.model.name,
            "seed": base.model.base.seed,
            "settings": asdict(base.model.base),
            "named_by": base.named_by,
        }
        for key, base in wanted.items()
        if key not in there
    ]
    if as_json:
        print_json(
            {"bases": rows, "missing": missing, "damaged": [{"what": e.what, "where": e.where} for e in damaged]}
        )
        return NOT_AS_GOOD if damaged else 0
    print(base_view.table(rows, missing))
    for error in damaged:
        tell(error.render())
    return NOT_AS_GOOD if damaged else 0


@verb()
def build(
    arguments: Arguments = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="A folder of bases [the home's].")] = None,
    jobs: JobsOption = None,
    home: HomeOption = None,
    as_json: JsonOption = False,
) -> int:
    """Build the base models that files or overrides name.

    For example: plat base build model=qwen2.5-3b model.base.seed=1. What is there already stays as it is; with --out,
    shipped ones are built again, too.
    """
    from plat.trainer.embedded.base_model.builds import build_all
    from plat.trainer.embedded.base_model.recipe import built_bases
    from plat.trainer.embedded.base_model.record import shipped_base

    models = [base.model for base in _wanted(arguments).values()]
    shipped = [] if out else [record for model in models if (record := shipped_base(model)) is not None]
    hashes = {record.folder.name for record in shipped}
    place = out or built_bases(Home.find(home).create().cache)
    left = [model for key, model in _by_key(models).items() if key not in hashes]
    records = [*shipped, *(build_all(left, place, _jobs(jobs), tell) if left else [])]
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
    margin: Annotated[float, typer.Option("--margin", min=0, max=1, help="A loss of success that matters.")] = 0.05,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Keep what is built in this folder.")] = None,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> int:
    """Build shipped base models again and say, task by task, whether the rebuilt ones are as good.

    Without files or overrides, all of them. Exit code 3 unless every rebuilt one is as good in every task.
    """
    from plat.trainer.embedded.base_model.builds import verify_all
    from plat.trainer.embedded.base_model.record import SHIPPED, records_in, shipped_base

    if arguments:
        records = [_shipped_or_refused(base.model, shipped_base) for base in _wanted(arguments).values()]
    else:
        records, damaged = records_in(SHIPPED)
        if damaged:
            raise damaged[0]
    if not records:
        raise SpecError("no base model is shipped with this version", mend="`plat base list` shows those built here")
    configs = [_evaluation(task, instances) for task in records[0].recipe["tasks"]]
    tell(f"building {counted(len(records), 'base model')} again; about a minute each")
    results = verify_all(records, configs, margin, _jobs(jobs), tell, out)
    good = all(task.verdict == "as good" for result in results for task in result.tasks)
    if as_json:
        print_json(
            {"as_good": good, "margin": margin, "bases": [base_view.verification_json(result) for result in results]}
        )
    else:
        for result in results:
            print(base_view.verification(result))
        print(f"as good: a loss of {margin:.0%} or more is excluded by the 95 % interval of the difference")
    return 0 if good else NOT_AS_GOOD


VERBS: dict[str, Callable[..., int]] = {"list": list_bases, "build": build, "verify": verify}


def application() -> typer.Typer:
    """The group `plat base`, with its verbs."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)

    @app.callback(invoke_without_command=True, help="The base models of the stand-ins.")
    def root(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            print(context.get_help())

    for name, function in VERBS.items():
        app.command(name)(function)
    return app


# --- which bases are meant -------------------------------------------------------------------------------------------


def _wanted(arguments: Sequence[str] | None) -> dict[str, Wanted]:
    """The bases that the files, or the overrides of one run, name: folder name -> who wants it."""
    from plat.spec.experiment import build_run

    files, overrides = split(arguments)
    if files:
        wanted: dict[str, Wanted] = {}
        for experiment in load_experiments(arguments):
            _add(wanted, experiment.runs, experiment.name)
    else:
        wanted = _add({}, [build_run(overrides)], "")
    if not wanted:
        raise SpecError("no run of these starts from a base model", mend="name a model, for example model=qwen2.5-3b")
    return wanted


def _wanted_by_files(arguments: Sequence[str] | None) -> dict[str, Wanted]:
    """As `_wanted`, of the named files or those in experiments/; one that cannot be read is reported and left out."""
    files, overrides = split(arguments)
    wanted: dict[str, Wanted] = {}
    for file in files or sorted(Path("experiments").glob("*.yaml")):
        try:
            for experiment in load_experiments([str(file), *overrides]):
                _add(wanted, experiment.runs, experiment.name)
        except PlatError as error:
            if files:
                raise
            tell(f"{file} is left out: {error.what}")
    return wanted


def _add(wanted: dict[str, Wanted], runs: Sequence[Any], name: str) -> dict[str, Wanted]:
    """Add the stand-ins that runs of the embedded trainer start from."""
    from plat.spec.typed import build as build_object
    from plat.trainer.config import ModelConfig
    from plat.trainer.embedded.base_model.recipe import base_key

    sections = {id(run.config["model"]): run.config["model"] for run in runs if run.trainer == "embedded"}
    for section in sections.values():  # runs share the sections of their configs: a few for thousands of runs
        model = build_object(ModelConfig, section)
        if model.path is None:
            entry = wanted.setdefault(base_key(model), Wanted(model))
            if name and name not in entry.named_by:
                entry.named_by.append(name)
    return wanted


def _askers(wanted: dict[str, Wanted], record: BaseRecord) -> list[str]:
    return wanted[record.folder.name].named_by if record.folder.name in wanted else []


def _by_key(models: Sequence[ModelConfig]) -> dict[str, ModelConfig]:
    from plat.trainer.embedded.base_model.recipe import base_key

    return {base_key(model): model for model in models}


def _shipped_or_refused(model: ModelConfig, shipped_base: Callable[[ModelConfig], BaseRecord | None]) -> BaseRecord:
    record = shipped_base(model)
    if record is None:
        raise CheckpointError(
            f"no base model of this recipe is shipped: {model.name}, seed {model.base.seed}",
            mend="`plat base list` shows those that are",
        )
    return record


def _evaluation(task: str, instances: int) -> Any:
    from plat.spec.experiment import build_run, config_object
    from plat.trainer.embedded.spec import SPEC

    return config_object(build_run([f"task={task}", f"eval.heldout={instances}"]), SPEC)


def _jobs(jobs: int | None) -> int:
    from plat.cores import usable_cores

    return jobs or usable_cores()
