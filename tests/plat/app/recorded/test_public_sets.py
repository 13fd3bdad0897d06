"""The public sets of others, where they lie beside the repository: imported numbers are those that pandas reads."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.sources import import_runs

ROOT = Path(__file__).parents[4]
SETS = ROOT.parent / "shared" / "data"
SUMMARIES = ROOT / "results" / "published"
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not SETS.is_dir(), reason="the public sets are not here")]
SUCCESS = "val-env/CoordSokoban/success"


def looked_at(kind, folder, **options):
    return import_runs(kind, [str(SETS / folder)], Path(), Choice(**options), dry=True)


def longest(frame, column):
    """The longest run of one seed: a run begins where a step comes again with another value."""
    runs: list[dict[int, float]] = [{}]
    for step, value in zip(frame["step"], frame[column], strict=True):
        if runs[-1].get(step, value) != value:
            runs.append({})
        runs[-1][step] = value
    return max(runs, key=len)


@pytest.fixture(scope="module")
def tasks():
    return pd.read_csv(ROOT / "experiments" / "published" / "tdmpc2_tasks.csv").set_index("task")["domain"]


@pytest.fixture(scope="module")
def scores():
    """algorithm, task, seed -> step -> score, by pandas alone."""
    found = {}
    for path in sorted((SETS / "tdmpc2" / "results").glob("*/*.csv")):
        frame = pd.read_csv(path)
        for seed, own in frame.groupby("seed"):
            found[path.parent.name, path.stem, int(seed)] = longest(own, frame.columns[1])
    return found


def test_every_run_of_tdmpc2_is_what_pandas_reads(scores):
    options = {"value": "score=reward,success", "repeated": "longest", "path": "{algorithm}/{task}.csv"}
    found = looked_at("table", "tdmpc2/results", **options)
    imported = {
        (each.values["algorithm"], each.values["task"], each.seed): {
            step: row["score"] for step, row in each.run.history.items()
        }
        for each in found.runs
    }
    assert imported == scores and len(scores) == 1284


def test_verdicts_of_tdmpc2_are_those_of_scipy(scores, tasks):
    rows = []
    for (algorithm, task, _), curve in scores.items():
        steps = np.array(sorted(curve))
        values = np.array([curve[step] for step in steps]) / (1000 if tasks[task] == "dmcontrol" else 1)
        area = np.trapezoid(values, steps) / (steps[-1] - steps[0])
        rows.append((algorithm, task, values[-1], area))
    frame = pd.DataFrame(rows, columns=["algorithm", "task", "end", "area"])
    summary = json.loads((SUMMARIES / "tdmpc2.json").read_text())
    reasons = {claim["id"]: claim["detail"] for claim in summary["verdicts"]}
    for other in ("sac", "dreamerv3", "tdmpc"):
        for measure, claim in (("end", f"ends-above-{other}"), ("area", f"learns-more-than-{other}")):
            table = frame.pivot_table(index="task", columns="algorithm", values=measure)
            change = table["tdmpc2"] - table[other]
            low, high = stats.t.interval(0.95, len(change) - 1, change.mean(), stats.sem(change))
            assert f"{change.mean():+.2f} [{low:+.2f}, {high:+.2f}]" in reasons[claim]
        table = frame.pivot_table(index="task", columns="algorithm", values="end")
        for domain, change in (table["tdmpc2"] - table[other]).groupby(tasks):
            if len(change) >= 8:
                low, high = stats.t.interval(0.95, len(change) - 1, change.mean(), stats.sem(change))
                shown = f"{domain} {change.mean():+.2f} [{low:+.2f}, {high:+.2f}]".replace("-", "−")
                assert shown in reasons[f"ends-above-{other}-in-each-domain"]


@pytest.fixture(scope="module")
def runs():
    """model, algorithm, filter -> metric -> step -> value, by own reading of the logs."""
    found = {}
    for folder in sorted((SETS / "ragen2_runs").iterdir()):
        log: dict[str, dict[int, float]] = {}
        for line in (folder / "train.log").read_text(errors="replace").splitlines():
            plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
            if match := re.search(r"step:(\d+) - (.*)", plain):
                for piece in match[2].split(" - "):
                    name, _, value = piece.partition(":")
                    if number := re.match(r"(?:np\.\w+\()?(-?[\d.]+(?:e[-+]?\d+)?|nan)", value):
                        log.setdefault(name, {})[int(match[1])] = float(number[1])
        model, algorithm, filtered = re.fullmatch(r".*?-(.*)-sokoban-(.*)-filter(.*)", folder.name).groups()
        found[model, algorithm, filtered] = log
    return found


def test_every_value_of_the_logs_is_imported(runs):
    path = "{model}-sokoban-{algorithm}-filter{filter}/train.log"
    found = looked_at("log", "ragen2_runs", path=path, beside="metadata.txt", axes=("size", "algorithm", "filter"))
    assert len(found.runs) == len(runs) == 25
    for each in found.runs:
        log = runs[each.values["size"], each.values["algorithm"], each.values["filter"]]
        curves: dict[str, dict[int, float]] = {}
        for step, row in each.run.history.items():
            for name, value in row.items():
                curves.setdefault(name, {})[step] = value
        assert curves == log


def test_the_numbers_of_the_runs_are_those_of_scipy(runs):
    last = {key: {name: curve[max(curve)] for name, curve in log.items()} for key, log in runs.items()}
    frame = pd.DataFrame(last).T
    numbers = json.loads((SUMMARIES / "ragen2_runs.json").read_text())["numbers"]
    names = {
        "MI": "collapse_trajectory_sample/mi_estimate",
        "retrieval": "collapse_trajectory_sample/retrieval_accuracy",
        "retrieval above chance": "collapse_trajectory_sample/retrieval_above_chance",
        "entropy": "collapse_trajectory_sample/conditional_entropy_est",
        "valid reasonings": "collapse/valid_thinking_rate",
    }
    for shown, name in names.items():
        rho = stats.spearmanr(frame[name], frame[SUCCESS]).statistic
        assert numbers[f"correlations/between settings/{shown}/rho"][0] == pytest.approx(rho, abs=1e-6)
    for (model, algorithm, filtered), log in runs.items():
        peak = 100 * max(log[SUCCESS].values())
        name = f"measures/{model} {algorithm}/{filtered}/peak"
        assert numbers[name][0] == pytest.approx(peak, abs=1e-6)
        lengths = [value for _, value in sorted(log["response_length/mean"].items())]
        part = max(1, int(0.2 * len(lengths)))
        change = np.mean(lengths[-part:]) / np.mean(lengths[:part]) - 1
        assert numbers[f"measures/{model} {algorithm}/{filtered}/length"][0] == pytest.approx(100 * change, abs=1e-5)


def test_the_descriptions_of_the_runs_are_recomputed(runs):
    """Partial correlations by their closed form, and the pruner's rule by pandas."""
    numbers = json.loads((SUMMARIES / "ragen2_runs.json").read_text())["numbers"]
    found = {name.partition("/")[2]: number for name, (number, *_) in numbers.items() if name.startswith("described/")}
    frame = pd.DataFrame({key: {name: curve[max(curve)] for name, curve in log.items()} for key, log in runs.items()}).T
    names = {"MI": "mi_estimate", "retrieval": "retrieval_accuracy", "retrieval above chance": "retrieval_above_chance"}
    names |= {"entropy": "conditional_entropy_est"}
    validity = "collapse/valid_thinking_rate"
    for shown, name in names.items():
        columns = [f"collapse_trajectory_sample/{name}", SUCCESS, validity]
        ((_, xy, xz), (_, _, yz), _) = stats.spearmanr(frame[columns].astype(float)).statistic
        assert found[shown] == pytest.approx(xy, abs=1e-6)
        given = (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2))
        other = (yz - xy * xz) / np.sqrt((1 - xy**2) * (1 - xz**2))
        assert found[f"{shown} given validity"] == pytest.approx(given, abs=1e-6)
        assert found[f"validity given {shown}"] == pytest.approx(other, abs=1e-6)
    stopped = {key: stops(pd.DataFrame(log)) for key, log in runs.items()}
    best = frame[SUCCESS].astype(float).nlargest(5).index
    assert (found["runs"], found["stopped"]) == (25, sum(stopped.values()))
    curves = {key: pd.Series(log[SUCCESS]).sort_index() for key, log in runs.items()}
    assert found["without success"] == sum(curve.iloc[-1] == 0 for curve in curves.values())
    counts = [len(curve) for curve in curves.values()]
    assert (found["fewest validations"], found["most validations"]) == (min(counts), max(counts))
    gains = []
    for model, algorithm, filtered in runs:
        if filtered == "on":
            pair = [curves[model, algorithm, side] for side in ("on", "off")]
            least = min(map(len, pair))
            gains.append(100 * (pair[0].iloc[:least].max() - pair[1].iloc[:least].max()))
    low, high = stats.t.interval(0.95, 11, np.mean(gains), stats.sem(gains))
    assert numbers["described/peak gain"] == pytest.approx([np.mean(gains), low, high], abs=1e-6)
    assert found["best stopped"] == sum(stopped[key] for key in best)
    longer = [numbers[f"measures/{model} {algorithm}/{filtered}/length"][0] > 0 for model, algorithm, filtered in runs]
    assert found["longer"] == sum(longer)


def stops(frame):
    """Return True if two measurements on end show a collapse: the rule that docs/searching.md describes."""
    first = "collapse_first_turn_sample/"
    frame = frame.sort_index().dropna(subset=[first + "retrieval_accuracy"])
    above = frame[first + "retrieval_accuracy"] - frame[first + "retrieval_chance_level"]
    entropy, valid = frame[first + "conditional_entropy_est"], frame["collapse/first_turn_num_valid"]
    for at in range(3, len(frame) + 1):
        recent, earlier = slice(at - 2, at), slice(0, at - 2)
        high, low = above.iloc[earlier].max(), above.iloc[recent].max()
        kept = entropy.iloc[recent].min() >= 0.5 * entropy.iloc[0]
        enough = 2 * valid.iloc[recent].min() >= valid.iloc[earlier].max()
        if low <= 0.1 and high - low > 0.1 and kept and enough:
            return True
    return False


def test_figure_7_is_recomputed():
    printed = {"maniskill": -40, "navigation": -40, "svg": -23, "frozenlake": -29, "mindcube": -87, "vsi": -66}
    numbers = json.loads((SUMMARIES / "ragen2_fig7.json").read_text())["numbers"]
    for path in sorted((SETS / "ragen2_fig7").glob("*/*.csv")):
        lengths = pd.read_csv(path)["output length"].dropna()
        part = max(1, int(0.2 * len(lengths)))
        change = 100 * (lengths.iloc[-part:].mean() / lengths.iloc[:part].mean() - 1)
        assert numbers[f"measures/{path.stem}/change of length"][0] == pytest.approx(change, abs=1e-6)
        for name, number in printed.items():
            assert name not in path.stem or round(change) == number
