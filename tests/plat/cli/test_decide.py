"""`plat sweep --decide`: seeds are added look by look until the claims are decided."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_files import results_of

SCRIPT = """
import argparse, json, os, pathlib, random, sys, time
options = argparse.ArgumentParser()
options.add_argument("--arm")
options.add_argument("--seed", type=int)
asked = options.parse_args()
if asked.seed == 5 and pathlib.Path(os.environ.get("BREAKS", "/nowhere")).exists():
    sys.exit("broken")
time.sleep(float(os.environ.get("SLOW", 0)))
gain = {"base": 0.0, "better": 3.0, "wide": 0.3, "same": 0.0}[asked.arm]
spread = 3.0 if asked.arm == "wide" else 0.2
noise = random.Random(f"{asked.seed} {asked.arm}").uniform(-1, 1)
print(json.dumps({"step": 1, "score": random.Random(asked.seed).uniform(0, 5) + gain + spread * noise}))
"""
FILE = """
title: Arms of a script
base: {trainer: script, script.command: "python train.py --arm {arm} --seed {seed}"}
matrix:
  arm: [base, better, wide, same]
  seed: range(5)
claims:
  - {id: better, says: Better beats base., check: mean_delta_positive, pair: arm, baseline: base, treatment: better,
     measure: {metric: score}, smallest: 1}
  - {id: wide, says: Wide beats base., check: mean_delta_positive, pair: arm, baseline: base, treatment: wide,
     measure: {metric: score}, smallest: 0.5}
"""


@pytest.fixture
def arms(tmp_path, home, empty_store, monkeypatch) -> Path:
    """A folder with a script and an experiment file; the home has an empty store."""
    home.mkdir()
    shutil.copy(empty_store, home / "mlflow.db")
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "arms.yaml").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "arms.yaml"


def seeds_of(home: Path) -> dict[str, int]:
    """Return arm -> how many of its runs have a result."""
    counts: dict[str, int] = {}
    for result in results_of_paths(home):
        name = json.loads((result.parent / "meta.json").read_text())["axes"]["arm"]
        counts[name] = counts.get(name, 0) + 1
    return counts


def results_of_paths(home: Path) -> list[Path]:
    return sorted(home.glob("runs/*/*/result.json"))


def plans_of(home: Path) -> list[dict]:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{home}/mlflow.db")
    runs = client.search_runs([one.experiment_id for one in client.search_experiments()], "tags.`plat.file` = 'arms'")
    return [json.loads(text) for run in runs for key, text in run.data.tags.items() if key.startswith("plat.plan.")]


def test_seeds_are_added_for_open_rows_only(plat, arms, home):
    code, out, err = plat("sweep", arms, "--decide")
    assert code == 0, err
    assert seeds_of(home) == {"base": 18, "better": 8, "wide": 18}  # no claim is about `same`
    lines = [line for line in out.splitlines() if line.startswith("arms: ")]
    assert lines[0] == "arms: 0 of 2 rows are decided or stopped; the next look is at 8 of at most 27 pairs: 24 runs"
    assert "1 of 2 rows" in lines[1] and "12 of at most 27 pairs: 8 runs" in lines[1]
    assert lines[-1] == "arms: 2 of 2 rows are decided or stopped"
    (plan,) = plans_of(home)
    assert plan["looks"] == [8, 12, 18, 27]
    first = min(path.stat().st_mtime for path in results_of_paths(home))
    assert plan["written"] <= time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(first))

    code, again, _ = plat("sweep", arms, "--decide")
    assert code == 0 and "0 of 0" not in again and seeds_of(home)["base"] == 18
    judged = {one["id"]: one for one in json.loads(plat("claims", arms, "decide=true", "--json")[1])["claims"]}
    assert judged["better"]["verdict"] == "shown" and "at 8 pairs" in judged["better"]["detail"]
    assert "at 18 pairs" in judged["wide"]["detail"]
    assert plat("status", arms, "decide=true")[1].startswith("arms: 44 done of 44")
    report = next((home / "reports").glob("arms@decide*/report.html")).read_text()
    assert "at 8 pairs" in report and f"written {plan['written']} UTC" in report
    assert "make no allowance for its looks" in report
    without = plat("claims", arms)[2]
    assert "judged these seeds at several looks" in without and "decide=true` allows for it" in without
    assert plat("report", arms, "decide=true")[0] == 0


def test_a_killed_sweep_goes_on_to_the_same_decisions(arms, home, tmp_path):
    """SIGKILL within each look; the results and verdicts are those of an undisturbed sweep."""
    command = [sys.executable, "-m", "plat", "sweep", str(arms), "--decide"]
    undisturbed = tmp_path / "undisturbed"
    shutil.copytree(home, undisturbed)
    whole = subprocess.run([*command, "--home", str(undisturbed)], capture_output=True, text=True, timeout=300)
    assert whole.returncode == 0, whole.stderr
    for kill_at in (4, 26, 36):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, env={**os.environ, "SLOW": "0.2"}, start_new_session=True
        )
        deadline = time.monotonic() + 120
        while len(results_of_paths(home)) < kill_at and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
        assert process.poll() is None, kill_at
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert len(results_of_paths(home)) < 44
    resumed = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert resumed.returncode == 0, resumed.stderr
    assert len(plans_of(home)) == 1

    def verdicts(text: str) -> str:
        return text[text.index("shown") : text.index("report:")]

    assert verdicts(resumed.stdout) == verdicts(whole.stdout)
    values = [
        {path.parent.name: json.loads(path.read_text())["measured"] for path in results_of_paths(folder)}
        for folder in (home, undisturbed)
    ]
    assert values[0].keys() == values[1].keys() and len(values[0]) == 44


def test_runs_that_fail_stop_the_looks_and_the_same_command_goes_on(plat, arms, home, tmp_path, monkeypatch):
    broken = tmp_path / "broken"
    broken.touch()
    monkeypatch.setenv("BREAKS", str(broken))
    code, out, _ = plat("sweep", arms, "--decide", "--keep-going")
    assert code == 3 and "12 of at most" not in out and len(results_of(home)) == 21
    judged = json.loads(plat("claims", arms, "decide=true", "--json")[1])["claims"]
    assert all("2 runs to the next, at 8 pairs (2 failed)" in one["detail"] for one in judged)
    broken.unlink()
    assert plat("retry", arms, "decide=true")[0] == 0
    code, out, err = plat("sweep", arms, "--decide")
    assert code == 0 and len(results_of(home)) == 44, err


def test_a_plan_is_fixed_and_fresh_seeds_are_a_new_one(plat, arms, home):
    assert plat("sweep", arms, "--decide", "decide.most=8")[0] == 0
    done = results_of(home)
    code, _, err = plat("sweep", arms, "--decide", "decide.most=12")
    assert code == 2 and "these seeds have a plan of 20" in err and "looks at 8" in err and "matrix.seed=[12]" in err
    said = arms.read_text().replace("Wide beats base.", "Wide beats it.")  # words are no part of a plan
    arms.write_text(said)
    assert plat("sweep", arms, "--decide", "decide.most=8")[0] == 0
    changed = arms.read_text().replace("smallest: 0.5", "smallest: 0.6")
    arms.write_text(changed)
    code, _, err = plat("sweep", arms, "--decide", "decide.most=8")
    assert code == 2 and "other claims), which is fixed" in err
    assert "the store has no such plan" in plat("claims", arms, "decide=true", "decide.most=8")[2]
    assert results_of(home) == done
    (arms.parent / "train.py").write_text(SCRIPT + "\nunused = 1\n")
    code, _, err = plat("sweep", arms, "--decide", "decide.most=12", "decide.margin=1")
    assert code == 2 and "which is fixed" in err  # the same seeds, whatever the script
    code, out, err = plat("plan", arms, "--decide", "decide.most=8", "matrix.seed=[100]")
    assert code == 0 and "24 runs for the first, at most 24" in out and "not used" not in out, err
    out = plat("plan", arms, "--decide", "decide.most=8", "matrix.seed=range(50, 60)")[1]
    assert "2 seeds of the matrix from 58 on are beyond the last look and not used" in out


def test_another_name_or_removed_folders_give_no_plan(plat, arms, home):
    assert plat("sweep", arms, "--decide", "decide.most=8")[0] == 0
    other = arms.with_name("other.yaml")
    other.write_text(arms.read_text())
    code, _, err = plat("sweep", other, "--decide", "decide.most=12")
    assert code == 2 and "these seeds have a plan of arms" in err
    shutil.rmtree(home / "runs")
    code, _, err = plat("sweep", other, "--decide", "decide.most=12")
    assert code == 2 and "these seeds have a plan of arms" in err
    code, _, err = plat("claims", arms, "decide=true", "decide.most=8")
    assert code == 0 and "decided by the plan written 20" in err


def test_first_runs_and_the_api_follow_the_plan(plat, arms, home):
    import plat as api

    assert plat("sweep", arms, "--decide", "--first", "3")[0] == 0 and len(results_of(home)) == 3
    ended = api.sweep(arms, ["decide=true"], home=str(home))
    assert ended.counts() == {"done": 41} and len(results_of(home)) == 44 and len(plans_of(home)) == 1


def test_runs_that_were_seen_allow_no_plan(plat, arms, home):
    assert plat("sweep", arms)[0] == 0
    code, _, err = plat("sweep", arms, "--decide")
    assert code == 2 and "15 of the 81 runs of this plan are done already, without a plan" in err
    assert "judges the present runs once" in err and "matrix.seed=[27]" in err
    assert len(results_of(home)) == 20 and not plans_of(home)


def test_a_bundle_keeps_the_plan(plat, arms, home, tmp_path):
    assert plat("sweep", arms, "--decide", "decide.most=8")[0] == 0
    bundle, there = tmp_path / "bundle", tmp_path / "there"
    assert plat("export", arms, "decide=true", "decide.most=8", "--out", bundle)[0] in (0, 3)
    assert plat("import", bundle, "--home", there)[0] == 0
    assert plans_of(there) == plans_of(home)
    words = [
        [(one["id"], one["verdict"], one["detail"]) for one in json.loads(out)["claims"]]
        for out in (
            plat("claims", arms, "decide=true", "decide.most=8", "--json", *where)[1]
            for where in ((), ("--home", there))
        )
    ]
    assert words[0] == words[1]
    code, _, err = plat("sweep", arms, "--decide", "decide.most=8", "--home", there)
    assert code == 0 and len(results_of_paths(there)) == 24, err


def test_runs_without_a_value_end_the_looks_with_a_reason(plat, arms, home):
    arms.write_text(arms.read_text().replace("metric: score", "metric: scoer"))
    code, _, err = plat("sweep", arms, "--decide")
    assert code == 3 and len(results_of(home)) == 24, err
    judged = json.loads(plat("claims", arms, "decide=true", "--json")[1])["claims"]
    assert all(one["verdict"] == "not_enough_data" and "no run logged 'scoer'" in one["detail"] for one in judged)
    assert all(len(one["detail"]) < 400 for one in judged)


TWO_UNITS = """  - {id: rate, says: x, check: mean_delta_positive, pair: arm, baseline: base, treatment: same,
     measure: {metric: score, percent: true}}
"""
NOT_BY_LOOKS = """claims:
  - {id: goes-with, says: x, check: correlated, conditions: arm, proxies: {score: {metric: score}},
     outcome: {metric: score}}
"""


@pytest.mark.parametrize(
    ("change", "overrides", "said"),
    [
        ("", ["decide.most=4"], "a first look needs 8 pairs"),
        ("", ["decide.most=soon"], "is no number of pairs"),
        ("", ["decide.looks=[8,9]"], "2 or more after the last"),
        ("", ["decide.looks=[8,12]", "decide.most=20"], "the last look is at 12 pairs, and most is 20"),
        ("", ["decide.margin=0"], "is not the size of an effect"),
        ("", ["decide.margn=3"], "did you mean 'margin'"),
        ("", ["decide=maybe"], "is no setting"),
        ("", ["decide.margin=5"], None),
        ("without claims", ["decide=true"], "decide needs a claim, and the file has none"),
        ("correlated", ["decide=true"], "can be judged while seeds are added (correlated)"),
        ("two units", ["decide.margin=5"], "the claims' measures have several units"),
        ("percent", ["decide.margin=0.05"], "is in points, from 0 to 100"),
        ("include", ["decide=true"], "chooses among them"),
        ("no seeds", ["decide=true"], "the matrix has no axis `seed`"),
        ("named seeds", ["decide=true"], "seeds that are whole numbers"),
        ("builds", ["decide.looks=[9,12]"], "a seed adds 2 of them"),
    ],
)
def test_wrong_plans_are_refused_before_any_run(plat, arms, home, change, overrides, said):
    text = arms.read_text()
    claims = text[text.index("claims:") :]
    text = {
        "without claims": text.replace(claims, ""),
        "correlated": text.replace(claims, NOT_BY_LOOKS),
        "two units": text + TWO_UNITS,
        "percent": text.replace(claims, "claims:\n" + TWO_UNITS),
        "include": text.replace("claims:", "include: [{arm: base, seed: 7}]\nclaims:"),
        "no seeds": text.replace("  seed: range(5)\n", ""),
        "named seeds": text.replace("range(5)", "[a, b]"),
        "builds": text.replace("  seed: range(5)", "  model.base.seed: [0, 1]\n  seed: range(5)"),
    }.get(change, text)
    arms.write_text(text)
    code, _, err = plat("plan", arms, *overrides)
    if said is None:
        assert code == 0, err
    else:
        assert code == 2 and said in err and "fix:" in err, err
    assert not results_of(home)
