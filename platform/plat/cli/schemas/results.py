"""The JSON of verbs that plan, run and judge."""

from __future__ import annotations

from typing import Any, NotRequired

from typing_extensions import TypedDict

from plat.cli.schemas.lines import ErrorData

Axes = dict[str, Any]


class ErrorControl(TypedDict):
    """How the error of a verdict is held."""

    method: str
    """`one test`; `every row`: each row is shown by its own test; `holm`: Holm's procedure over the rows with enough
    data; `looks`: group-sequential tests while seeds are added (`decide`), with Holm's procedure over the rows."""
    level: float
    """One-sided error of a wrong verdict, over all rows and looks of the claim."""
    rows: int
    looks: int
    """Planned looks, among which the error is divided."""
    in_words: str


class RowOfVerdict(TypedDict):
    """The numbers of a row of a claim; null where there are none, for example without enough data."""

    row: str
    """"" for the only row of a claim that names none."""
    finding: str
    """What is shown in it, such as `above zero`; `open`; or `without enough data`."""
    estimate: float | None
    """The mean change, level, slope or correlation."""
    low: float | None
    """Lower end of the interval of this row alone; null where fewer than three units allow none."""
    high: float | None
    level: float | None
    """Of the interval, two-sided: 0.95. With `decide` it holds over all looks."""
    over: str
    """What the interval is over: seeds, builds, tasks, runs (unpaired) or settings; "" without one."""
    about: str
    """The builds of the base model that it is about; "" for runs without builds."""
    unit: str
    """points (of a change in percent), percent, or "": that of the metric."""
    values: int
    """Runs, or pairs of runs, from which the estimate is made."""
    wanted: int
    """Those that the file asks for."""
    units: int
    """Independent units of the interval and the tests."""
    p: float | None
    """One-sided, of the row's own test of its finding; of the claim in an open row. With `decide` there is none."""
    p_corrected: float | None
    """The same after Holm's procedure over the rows."""
    tests: dict[str, float]
    """The p-value of each finding's own test; the finding that is claimed comes first."""
    note: str
    """Why values are missing."""
    run_ids: list[str]


class Verdict(TypedDict):
    """The verdict on a claim."""

    id: str
    verdict: str
    """shown, shown_in_part, contradicted, not_of_this_size, open or not_enough_data."""
    word: str
    """The same in print: `shown in 3 of 9`; `reproduced` for a claim of a paper."""
    says: str
    """The claim."""
    check: str
    """The check that judged it."""
    options: dict[str, Any]
    """The options of the check in the file."""
    scale: str
    """What the runs are, such as `real scale, one seed` (`evidence` of the file or its paper); else their scale and
    number of seeds."""
    reason: str
    """The numbers on which the verdict rests, in one sentence."""
    value: Any
    """The estimate, or a label of each row to its estimate."""
    p: float | None
    """The p-value of the verdict over the rows: the largest of all rows if every row is shown, else the smallest after
    Holm's procedure."""
    error_control: ErrorControl | None
    """Null where a check of a plug-in does not say it."""
    rows: list[RowOfVerdict]
    """Empty where a check of a plug-in gives none."""
    detail: str
    run_ids: list[str]
    expected: list[str] | None
    """The verdicts that the file expects."""
    as_expected: bool | None
    """Null where the file expects nothing."""


class ClaimVerdict(Verdict):
    """The verdict on a claim of an experiment file."""

    experiment: str
    source: str | None
    evidence: str
    """What the runs are, such as `one seed`; "" if neither the file nor its paper says."""
    stands_over_all: bool | None
    """Whether it stands with one error over all claims that were asked for (Holm); null where that does not apply."""
    claims_compared: int
    """How many of these claims had enough data: those over which the error is held."""
    reference: str | None
    """What the committed results found, where there is not enough data here."""
    paper_claims: list[str]
    """Ids of the sentences of a paper that it tests."""


class ClaimsData(TypedDict):
    """plat claims"""

    claims: list[ClaimVerdict]
    notes: list[str]
    """What limits the verdicts: the plan that decided, seeds that were judged before, code that has changed."""
    failed: list[ErrorData]
    """Files that could not be judged."""


class Cost(TypedDict):
    """What runs used; null: not measured for one of them."""

    runs: int
    """Those with a record of it."""
    seconds: float
    cpu_seconds: float | None
    gpu_seconds: float
    cpu_kwh: float | None
    gpu_kwh: float | None
    kwh: float | None
    """What was measured of both."""
    is_shared: bool
    """Whether other programs were on the GPUs."""
    unrecorded: int
    """Attempts without a record, which are not counted."""
    money: NotRequired[float | None]
    """At the rates of the profile `cluster=NAME`, as the following keys."""
    currency: NotRequired[str]
    money_without: NotRequired[list[str]]
    kg_co2: NotRequired[float | None]


class ReportData(TypedDict):
    """A report that was made."""

    experiment: str
    page: str | None
    """The HTML page; null where nothing was written."""
    files: list[str]
    is_whole: bool
    """Whether every part could be made of all runs."""
    kept: str
    """Why nothing was written."""
    cost: Cost
    verdicts: list[Verdict]


class ReportsData(TypedDict):
    """plat report"""

    reports: list[ReportData]
    joint_page: str | None


class JudgeData(TypedDict):
    """plat judge"""

    verdict: str
    """better (exit code 0), worse (10), no difference of that size (11), undecided (12), fails (13)."""
    exit_code: int
    metric: str
    old: float | None
    """Mean of the metric over the pairs."""
    new: float | None
    difference: float | None
    """Of the new version to the old, in the unit of the metric."""
    interval: tuple[float, float] | None
    pairs: int
    seconds: float
    error: float
    """Of a false "better", fixed before the first pair."""
    why: str
    file: str
    """The experiment file of the judgement."""
    reads_outside: list[str]
    """Files outside of both versions that their Python processes have read."""


class PlannedRun(TypedDict):
    """A run of a plan."""

    id: str
    name: str
    state: str
    axes: Axes
    experiments: list[str]
    trainer: str
    outcome: str | None
    step: int | None
    iterations: int | None
    success: float | None
    attempt: int
    seconds: float | None
    """Expected for what is left of it."""


class DecidePlan(TypedDict):
    """How a file adds seeds until its claims are decided."""

    experiment: str
    looks: list[int]
    """Pairs at which the claims are judged."""
    error: float
    margin: float | None
    first_runs: int
    """Runs that the next look needs."""
    most_runs: int
    expected_runs: list[int]
    """If no row has an effect, and if every effect equals the margin."""
    written: str | None
    """When the plan was written (UTC); null before the first run."""


class PlanData(TypedDict):
    """plat plan; further keys are notes of trainers. For search files, only home and searches."""

    home: str
    runs: NotRequired[list[PlannedRun]]
    counts: NotRequired[dict[str, int]]
    shared: NotRequired[int]
    """Runs that several files ask for."""
    experiments: NotRequired[list[dict[str, Any]]]
    needs: NotRequired[list[dict[str, Any]]]
    cost: NotRequired[dict[str, Any]]
    """Workers, work and wall time in seconds, disk in bytes; null where no similar run was measured here."""
    claims: NotRequired[dict[str, dict[str, list[str]]]]
    """File to claim to what it can show at best."""
    decide: NotRequired[list[DecidePlan]]
    searches: NotRequired[list[dict[str, Any]]]


class EndedRun(TypedDict):
    """How a run of a sweep ended."""

    id: str
    name: str
    state: str
    outcome: str | None
    reason: str


class SweepData(TypedDict):
    """The last line of plat sweep and plat retry."""

    runs: list[EndedRun]
    counts: dict[str, int]
    is_detached: bool
    """Whether its runs were left with a scheduler."""
    is_interrupted: bool
    given_up: str
    """Why nothing more was started after failures."""
    trouble: list[str]
    reports: list[ReportData]
    plan: NotRequired[PlanData]
    """With --dry-run."""


class SearchEnd(TypedDict):
    """A search that ended."""

    name: str
    counts: dict[str, int]
    """State to number of trials."""
    iterations: int
    all_tie: bool
    winners: list[dict[str, Any]]
    left_out: dict[str, str]
    report: str


class TuneData(TypedDict):
    """The last line of plat tune."""

    searches: list[SearchEnd]
