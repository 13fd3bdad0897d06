"""Verbs about results: `plat sync`, `plat report`, `plat claims`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from plat.cli.common import (
    Arguments,
    HomeOption,
    JsonOption,
    StoreOption,
    load_experiments,
    print_json,
    split,
)
from plat.cli.exit_codes import RUNS_FAILED
from plat.cli.importing import catch_up, import_all, load_results
from plat.cli.joint_reports import Tolerant, load_each, write_joint
from plat.cli.reports import MadeReport, make_report
from plat.cli.settings import verb
from plat.cli.table import fitted
from plat.cli.verdict_list import FOLDER, as_list, files_with_claims, in_full, is_folder
from plat.cli.verdict_list import as_json as verdicts_as_json
from plat.errors import HomeError
from plat.store.home import Home
from plat.store.mlflow.uri import shown_uri
from plat.units import counted

if TYPE_CHECKING:
    from plat.spec.experiment import Experiment

WITHOUT_FILE = (
    "`plat runs{home}` shows runs that belong to no file (`plat run`), `plat diff RUN RUN{home}` compares them"
)
WITHOUT_FOLDER = "without one, `plat claims` judges every file below `experiments/`, and there is no such folder here"
OutOption = Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Where the files go [HOME/reports/FILE].")]
NoRecordOption = Annotated[bool, typer.Option("--no-record", help="Write nothing into MLflow, runs neither.")]


@verb(reads_trainers=True)
def sync(
    arguments: Arguments = None,
    with_diff: Annotated[
        bool, typer.Option("--with-diff", help="Copy the text of uncommitted code changes, too, not only its hash.")
    ] = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Copy what runs recorded into MLflow.

    Runs of the named files, or all of this home. `plat sweep` does this by itself.
    """
    from plat.store.mlflow.connect import check_store

    place = Home.find(home)
    experiments = load_experiments(arguments, required=False, home=home, with_searches=True)
    if not place.exists():
        raise HomeError(
            "there is no home directory here, so there are no runs to copy",
            where=str(place.root),
            mend="name the one that `plat sweep` made, with --home DIR (or PLAT_HOME)",
        )
    place.create()
    uri = place.store_uri(store)
    done = import_all(place, uri, experiments, with_diff=with_diff)
    if not (done.imported or done.unchanged):
        check_store(place, uri)  # nothing to import: then nobody has asked the store yet
    counts = f"{counted(len(done.imported), 'run')} brought up to date, {done.unchanged} up to date already"
    print(fitted(f"{counts}: {shown_uri(uri)}"))
    return done.exit_code


@verb(reads_trainers=True)
def report(
    arguments: Arguments = None,
    out: OutOption = None,
    no_record: NoRecordOption = False,
    home: HomeOption = None,
    store: StoreOption = None,
) -> int:
    """Build tables, figures and one HTML page.

    From the store alone, which is brought up to date first. What is found is recorded there, too. Several files have
    one page together, beside that of each; one with a mistake is named, and the others are made.
    """
    files = dict.fromkeys(split(arguments)[0])
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    tolerant = Tolerant()
    if len(files) > 1:
        experiments = load_each(arguments or (), home, tolerant)
    else:
        experiments = load_experiments(arguments, home=home, without_file=WITHOUT_FILE)
    exit_code = 0 if no_record else catch_up(place, uri, experiments)
    built = []
    for experiment in experiments:

        def make(experiment: Experiment = experiment) -> MadeReport:
            folder = (out / experiment.report_name if len(files) > 1 else out) if out else None
            return make_report(place, uri, experiment, folder, record=not no_record)

        made = tolerant.call(make) if len(files) > 1 else make()
        if made is not None:
            print(made.printed, end="")
            made.built.release()
            built.append(made.built)
            exit_code = exit_code if made.whole else RUNS_FAILED
    if len(files) > 1 and built:
        print(write_joint(place, built, tolerant.failed, arguments or (), out), end="")
    return RUNS_FAILED if tolerant.failed else exit_code


@verb(reads_trainers=True)
def claims(
    arguments: Arguments = None,
    home: HomeOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """The verdict on each claim of the paper.

    Without a file, of every file below `experiments/`, under the sentences of the paper that they test; or below a
    folder that is named. The error is held over all of their claims.
    """
    files, overrides = split(arguments)
    named = [path for file in files or [FOLDER] for path in (files_with_claims(file) if is_folder(file) else [file])]
    if not files and not FOLDER.is_dir():
        named = []
    place = Home.find(home).checked()
    uri = place.store_uri(store)
    tolerant = Tolerant()
    texts = [*map(str, named), *overrides]
    if len(named) > 1:
        experiments = load_each(texts, home, tolerant)
    elif named or not files:
        experiments = load_experiments(texts, home=home, without_file=WITHOUT_FOLDER)
    else:
        experiments = []
    exit_code = catch_up(place, uri, experiments)
    from plat_analysis.claims.engine import check_claims
    from plat_analysis.claims.paper import paper_claims
    from plat_analysis.claims.reference import reference_beside
    from plat_analysis.report.verdicts import Judged, verdict_lines

    claimed = paper_claims(experiments)

    checked = []
    for experiment in experiments:

        def check(experiment: Experiment = experiment) -> tuple[Judged, bool]:
            frames = load_results(place, uri, experiment)
            verdicts = check_claims(frames, experiment)
            return Judged(experiment, verdicts, reference_beside(experiment, verdicts)), not frames.changed

        if (done := tolerant.call(check) if len(named) > 1 else check()) is not None:
            checked.append(done[0])
            exit_code = exit_code if done[1] else RUNS_FAILED
    lines = verdict_lines(checked)
    if as_json:
        print_json({"claims": verdicts_as_json(lines, claimed)})
    elif not lines:
        print("these files claim nothing")
    elif len(named) > 1:
        print(as_list(lines, [] if files else claimed))
    else:
        print(in_full(checked[0]))
    return RUNS_FAILED if tolerant.failed else exit_code
