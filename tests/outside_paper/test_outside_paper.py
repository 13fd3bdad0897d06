"""A second paper lives outside the repository's packages and needs nothing but YAML and entry points."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from fresh_plat import fresh_plat

HERE = Path(__file__).parent
SPEC = HERE / "experiments" / "guessing.yaml"


@pytest.fixture
def plat(tmp_path, toy_paper):
    """Run `plat` in a process that can see the installed package, with its own home."""

    def run(*arguments: object) -> subprocess.CompletedProcess:
        environment = {name: value for name, value in os.environ.items() if name != "MLFLOW_TRACKING_URI"}
        environment |= {"PYTHONPATH": str(toy_paper), "PLAT_HOME": str(tmp_path / "home")}
        return fresh_plat(*arguments, cwd=tmp_path, env=environment)

    return run


def test_a_second_paper_runs_by_yaml_and_entry_points_alone(plat, tmp_path):
    done = plat("sweep", SPEC)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "climber" in done.stdout and "toy.learns" in done.stdout
    page = tmp_path / "home" / "reports" / "guessing" / "report.html"
    assert page.exists() and "Success at guessing a number" in page.read_text()

    claims = plat("claims", SPEC, "--json")
    assert claims.returncode == 0, claims.stderr
    (claim,) = json.loads(claims.stdout)["claims"]
    assert claim["id"] == "toy.learns" and claim["verdict"] == "shown"
    assert len(claim["run_ids"]) == 4

    again = plat("sweep", SPEC)
    assert again.returncode == 0 and again.stdout.startswith("nothing to do")


def test_a_dispatcher_of_another_package_does_the_runs_of_a_sweep(plat, tmp_path):
    done = plat("sweep", SPEC, "--on", "one_at_a_time")
    assert done.returncode == 0, done.stdout + done.stderr
    assert plat("sweep", SPEC).stdout.startswith("nothing to do")
    wrong = plat("sweep", SPEC, "--on", "one_at_a_tim")
    assert wrong.returncode == 2 and "did you mean 'one_at_a_time'" in wrong.stderr


def test_tables_correlations_and_trends_of_a_second_paper_need_yaml_alone(plat, tmp_path):
    """The planted effect: a longer stride learns to bisect sooner, and who bisects wins."""
    file = SPEC.with_name("strides.yaml")
    done = plat("sweep", file)
    assert done.returncode == 0, done.stdout + done.stderr
    claims = json.loads(plat("claims", file, "--json").stdout)["claims"]
    assert {claim["id"]: claim["verdict"] for claim in claims} == {
        "toy.bisecting-wins": "shown",
        "toy.longer-is-better": "shown",
    }
    with (tmp_path / "home" / "reports" / "strides" / "measures.csv").open() as lines:
        shown = [line for line in csv.DictReader(lines) if line["measure"] == "bisecting" and not line["against"]]
    values = [float(line["value"]) for line in shown]
    assert len(values) == 6 and values == sorted(values) and values[-1] > values[0] + 20


def test_its_environment_is_an_option_of_task(plat, tmp_path):
    """By its bare name, as for those that come with plat, and with the identity that `task.name` gives it."""
    numbers = ["eval.instances=15", "eval.heldout=15", "--json"]
    plans = []
    for key in ("task", "task.name"):
        path = tmp_path / "own.yaml"
        path.write_text(f"title: Guessing\nbase: {{{key}: number_guessing}}\nmatrix: {{seed: [0]}}\n")
        done = plat("plan", path, *numbers)
        assert done.returncode == 0, done.stderr
        plans.append(json.loads(done.stdout)["runs"][0]["id"])
    assert plans[0] == plans[1]
    path.write_text("title: Guessing\nbase: {task: number_gessing}\nmatrix: {seed: [0]}\n")
    assert "fix: did you mean 'number_guessing'?" in plat("plan", path).stderr
    assert "number_guessing" in plat("options", "task").stdout


def test_too_few_problems_of_an_environment_of_ones_own_are_refused_by_plan(plat, tmp_path):
    (tmp_path / "own.yaml").write_text("title: Guessing\nbase: {task: number_guessing}\nmatrix: {seed: [0]}\n")
    done = plat("plan", "own.yaml")
    assert done.returncode == 2 and "number_guessing has 15 different problems for validation, 256" in done.stderr
    assert "fix: eval.instances=15" in done.stderr and not (tmp_path / "home").exists()


def test_without_the_package_the_message_says_what_is_missing(tmp_path):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = fresh_plat("plan", str(SPEC), "--home", str(tmp_path / "home"), cwd=Path.cwd(), env=environment, timeout=60)
    assert done.returncode == 2 and "toy_" in done.stderr and "fix: " in done.stderr


def test_a_trainer_that_cannot_be_imported_is_no_mistake_of_plat(tmp_path, toy_paper):
    site = tmp_path / "site"
    shutil.copytree(toy_paper, site)
    (site / "toy_paper" / "trainer.py").write_text("def broken(:\n")
    environment = os.environ | {"PYTHONPATH": str(site)}
    done = fresh_plat("plan", str(SPEC), "--home", str(tmp_path / "home"), cwd=Path.cwd(), env=environment, timeout=60)
    assert done.returncode == 2 and "'toy_hill_climber' of plat.trainers cannot be loaded: SyntaxError" in done.stderr


def test_nothing_in_the_repository_refers_to_the_second_paper():
    root = HERE.parents[1]
    files = [path for folder in ("platform", "envs", "analysis") for path in (root / folder).rglob("*.py")]
    names = ("toy_paper", "toy_hill_climber", "number_guessing")
    assert not [path for path in [*files, root / "pyproject.toml"] if any(name in path.read_text() for name in names)]


def test_an_environment_without_a_method_is_refused_by_plan_and_named_by_doctor(plat, toy_paper, tmp_path):
    (tmp_path / "own.yaml").write_text("title: Guessing\nbase: {task: number_guessing}\nmatrix: {seed: [0]}\n")
    numbers = ["eval.instances=15", "eval.heldout=15"]
    assert plat("plan", "own.yaml", *numbers).returncode == 0
    assert "played: number_guessing" in plat("doctor").stdout
    file = toy_paper / "toy_paper" / "environment.py"
    whole = file.read_text()
    try:
        file.write_text(whole.replace("def close", "def another_name"))
        planned, checked = plat("plan", "own.yaml", *numbers), plat("doctor")
        assert planned.returncode == 2 and "it has no `close`" in planned.stderr and "fix: " in planned.stderr
        assert checked.returncode == 2 and "it has no `close`" in checked.stdout
        file.write_text(whole.replace("count from", "between"))
        planned, checked = plat("plan", "own.yaml", *numbers), plat("doctor")
        assert planned.returncode == 2 and "'between', is not in the vocabulary of stand-ins" in planned.stderr
        assert checked.returncode == 0 and "warning  tasks" in checked.stdout
    finally:
        file.write_text(whole)


def test_verbs_of_another_package_are_listed_and_work(plat):
    listed = plat("--help").stdout
    assert "Say how many guesses" in listed and "Guesses, in two ways." in listed
    assert plat("guess", 100).stdout == "7 guesses\n"
    assert json.loads(plat("guesses", "bisect", 100, "--json").stdout) == {"guesses": 7}


def test_checks_of_another_package_are_part_of_doctor(plat):
    checks = {check["name"]: check for check in json.loads(plat("doctor", "--json").stdout)["checks"]}
    assert (checks["guessing"]["level"], checks["guessing"]["says"]) == ("warning", "nobody has guessed yet")


def test_a_broken_verb_and_a_broken_check_are_named_and_disturb_nothing_else(tmp_path):
    info = tmp_path / "broken" / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    points = "[plat.verbs]\nnone = json:decoder\nabsent = no_such_module:verb\nlate = late:late\nleaves = late:leaves\n"
    (info / "entry_points.txt").write_text(points + "[plat.doctor]\nfails = json:loads\n")
    verbs = "import typer\ndef late():\n    return {}['key']\ndef leaves():\n    raise typer.Exit(7)\n"
    (info.parent / "late.py").write_text(verbs)

    def plat(*arguments: str) -> subprocess.CompletedProcess:
        environment = os.environ | {"PYTHONPATH": str(info.parent), "PLAT_HOME": str(tmp_path / "home")}
        return fresh_plat(*arguments, cwd=tmp_path, env=environment)

    listed = plat("--help")
    assert listed.returncode == 0 and listed.stdout.count("(cannot be used: the ") == 2
    wrong = plat("none")
    assert wrong.returncode == 2 and "neither a function nor a VerbGroup" in wrong.stderr
    assert plat("absent").returncode == 2 and "no_such_module" in plat("absent").stderr
    late = plat("late")
    assert late.returncode == 2 and "the verb 'late' failed: KeyError: 'key'" in late.stderr
    assert f"{info.parent / 'late.py'}:3" in late.stderr
    assert (plat("leaves").returncode, plat("leaves").stderr) == (7, "")
    checks = {check["name"]: check for check in json.loads(plat("doctor", "--json").stdout)["checks"]}
    assert checks["fails"]["level"] == "error" and "failed" in checks["fails"]["says"]


def test_a_pruner_of_another_package_stops_runs_of_a_search(plat, tmp_path):
    (tmp_path / "search.yaml").write_text(
        "title: search\nbase: {trainer: toy_hill_climber, climb.games: 2000, climb.iterations: 40}\n"
        "objectives: [{maximize: success}]\ntrials: 2\nseeds: [0]\n"
        "space: {climb.stride: [0.2, 0.3]}\npruner: {name: toy_too_low, least: 2.0, after: 2}\n"
    )
    done = plat("tune", "search.yaml")
    assert done.returncode == 3 and "search: 2 trials (2 pruned)" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count(" at step 2") == 2
