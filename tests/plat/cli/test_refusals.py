"""Bad input gets a message of three lines, and writes nothing."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_files import GOOD

from plat.planning.check import check_runs
from plat.spec.expansion.experiment import load_experiment, load_experiments

ROOT = Path(__file__).parents[3]
BAD_FILES = {
    "a misspelt key": ("title: A test\nmatrx:\n  seed: [0]\n", "matrix"),
    "a misspelt group option": (GOOD.replace("frozenlake", "frozenlak"), "frozenlake"),
    "a misspelt option": (GOOD + "  filter.epss: [0.1]\n", "filter.eps"),
    "a wrong type": (GOOD + "  train.iterations: [many]\n", "train.iterations"),
    "an empty axis": ("title: A test\nmatrix:\n  seed: []\n", "seed"),
    "the same key twice": ("title: A test\nmatrix:\n  seed: [0]\n  seed: [1]\n", "seed"),
    "no YAML at all": ("title: A test\nmatrix: [unclosed\n", ""),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_a_wrong_file_gets_three_lines_and_writes_nothing(plat, spec, home, case):
    text, hint = BAD_FILES[case]
    path = spec(text)
    for verb in ("plan", "sweep"):
        code, out, err = plat(verb, path)
        assert (code, out) == (2, "")
        lines = err.splitlines()
        assert lines[0].startswith("error: ") and len(lines) <= 3
        assert str(path) in err and hint in err
        assert not home.exists()


@pytest.mark.parametrize(("arguments", "expected"), [([], 0), (["run"], 2)])
def test_plat_and_run_without_arguments_print_their_help(plat, home, arguments, expected):
    """`plat run` trains nothing that nobody asked for."""
    code, out, err = plat(*arguments)
    assert (code, err) == (expected, "") and "Usage: plat" in out
    assert not home.exists()


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        (["plan"], "name one, for example experiment.yaml"),
        (["plan", "experiments/tabel4.yaml"], "tabel4.yaml"),
        (["plann", "experiments/table4.yaml"], "plann"),
        (["plan", "--jbos", "2", "x.yaml"], "--jbos"),
        (["sweep", "--jobs", "0", "x.yaml"], "--jobs"),
        (["run", "task=frozenlak"], "frozenlake"),
        (["run", "experiments/table4.yaml"], "plat sweep"),
        (["eval", "nothing-12345678"], "nothing-12345678"),
        (["logs", "nothing-12345678"], "plat status"),
        (["why", "nothing-12345678"], "nothing-12345678"),
        (["plan", ""], "an argument is empty"),
        (["plan", "quickstart"], "did you mean 'experiments/quickstart.yaml'?"),
        (["plan", "https://example.com/x.yaml"], "at: https://example.com/x.yaml"),
        (["plan", "x" * 300 + ".yaml"], "a file name that is too long"),
        (["why", "x" * 300], "a file name that is too long"),
        (["plan", "experiments/quickstart.yaml", "--home", "x" * 300], "a file name that is too long"),
        (["plan", "experiments/quickstart.yaml", "--home="], "--home is empty"),
        (["report", "experiments/quickstart.yaml", "--out", ""], "--out is empty"),
        (["eval", "experiments"], "neither a run's nor a checkpoint"),
        (["why", "experiments"], "this directory is not a run's"),
        (["retry", "--where", "foo"], "--where foo"),
        (["options", "--trainer", "embeded"], "did you mean 'embedded'?"),
    ],
)
def test_a_wrong_command_line_gets_a_message_and_writes_nothing(plat, home, arguments, hint, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, out, err = plat(*arguments)
    assert (code, out) == (2, "")
    assert err.startswith("error: ") and len(err.splitlines()) <= 3
    assert hint in err
    assert not home.exists()


@pytest.mark.parametrize("verb", ["report", "claims", "status", "plan", "sweep", "watch", "runs", "sync"])
def test_a_run_in_the_place_of_a_file_is_met_with_a_command_that_works(plat, executed, home, verb, monkeypatch):
    run = executed()
    for name in (run.id[:6], run.root):
        code, out, err = plat(verb, name)
        assert (code, out) == (2, "") and "this names a run" in err
        (command, *_) = re.findall("plat [a-z]+ [^`;]*", err.splitlines()[-1])
        assert run.id in command and "--home" not in command
        assert plat(*shlex.split(command)[1:])[0] == 0
    monkeypatch.delenv("PLAT_HOME")
    assert f"--home {home}" in plat(verb, run.id, "--home", home)[2]


def test_who_has_no_file_hears_what_needs_none(plat, executed):
    executed()
    said = {verb: plat(verb)[2] for verb in ("report", "sweep")}
    assert "`plat runs`" in said["report"] and "`plat diff RUN RUN`" in said["report"] and "`plat run " in said["sweep"]


def test_a_wrong_override_names_itself(plat, spec, home):
    code, _, err = plat("sweep", spec(GOOD), "train.iterashuns=5")
    assert code == 2 and "train.iterashuns" in err and "train.iterations" in err
    assert not home.exists()


def test_a_product_of_a_million_runs_is_refused(plat, spec, home):
    code, _, err = plat("plan", spec(GOOD), "matrix.seed=range(1000000)")
    assert code == 2 and "100,000" in err.replace("100000", "100,000")


@pytest.mark.parametrize("verb", ["plan", "sweep"])
def test_a_home_that_is_a_file(plat, spec, tmp_path, verb):
    (tmp_path / "taken").write_text("")
    code, _, err = plat(verb, spec(GOOD), "--home", tmp_path / "taken")
    assert code == 2 and "home directory" in err and "--home" in err
    assert (tmp_path / "taken").read_text() == ""


def test_a_home_from_a_newer_version(plat, spec, home):
    home.mkdir()
    (home / "home.json").write_text('{"format": 99}')
    code, _, err = plat("sweep", spec(GOOD))
    assert code == 2 and "newer" in err
    assert [path.name for path in home.iterdir()] == ["home.json"]


@pytest.mark.parametrize("verb", ["plan", "sweep", "report"])
def test_a_file_cannot_write_outside_its_folder(plat, spec, home, verb):
    code, _, err = plat(verb, spec(GOOD, "...yaml"))
    assert code == 2 and "rename the file" in err and not home.exists()


def test_a_mistake_of_ours_is_one_line_and_a_file(plat, spec, monkeypatch, tmp_path):
    monkeypatch.setattr("plat.spec.expansion.experiment.load_experiment", lambda *_: 1 / 0)
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    code, _, err = plat("plan", spec(GOOD))
    assert code == 1 and "ZeroDivisionError" in err and len(err.splitlines()) == 3
    saved = next(tmp_path.glob("plat-error-*.txt")).read_text()
    assert "Traceback" in saved and "plat plan" in saved


def test_a_full_disk_is_a_message(plat, spec, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device", "/somewhere/events.jsonl")

    monkeypatch.setattr("plat.spec.expansion.experiment.load_experiment", full)
    code, _, err = plat("plan", spec(GOOD))
    assert code == 2 and "No space left" in err and "/somewhere/events.jsonl" in err


def test_a_closed_pipe_is_silent(spec):
    command = f"{sys.executable} -m plat plan {spec(GOOD)} 'matrix.seed=range(400)' -v | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60)
    said = [line for line in done.stderr.splitlines() if not line.endswith("making 400 runs ...")]  # of a slow machine
    assert done.stdout.count("\n") == 1 and said == []


UNPUBLISHED = "title: A test\nbase: {trainer: 'plat_toy:Toy'}\nmatrix:\n  seed: [0]\n"


@pytest.mark.parametrize("verb", ["plan", "sweep", "status", "retry", "report", "claims", "sync"])
def test_a_trainer_that_is_not_published_needs_permission(plat, spec, home, monkeypatch, verb):
    monkeypatch.delenv("PLAT_ALLOW_IMPORT")
    path = spec(UNPUBLISHED)
    code, _, err = plat(verb, path)
    assert code == 2 and "--allow-import" in err and f"{path}:2:17" in err and not home.exists()


def test_permission_to_import_is_for_one_call(plat, spec, home, monkeypatch):
    monkeypatch.delenv("PLAT_ALLOW_IMPORT")
    path = spec(UNPUBLISHED)
    assert plat("plan", path, "--allow-import")[0] == 0
    assert plat("plan", path)[0] == 2
    monkeypatch.setenv("PLAT_ALLOW_IMPORT", "1")
    assert plat("plan", path)[0] == 0


@pytest.mark.parametrize("verb", ["plan", "sweep", "run"])
def test_a_trainer_is_asked_before_anything_runs(plat, spec, home, toy_paper, monkeypatch, verb):
    """What a trainer's `check` refuses is refused by every verb that would run it."""
    monkeypatch.syspath_prepend(str(toy_paper))
    overrides = ["trainer=plat_toy:Toy", "mischief=unfit"]
    text = "title: A test\nbase: {trainer: 'plat_toy:Toy', mischief: unfit}\nmatrix:\n  seed: [0]\n"
    code, _, err = plat(verb, *(overrides if verb == "run" else [spec(text)]))
    assert code == 2 and "the toy cannot do this" in err and "fix: mischief=none" in err
    assert not home.exists()


@pytest.mark.parametrize("verb", ["plan", "sweep", "run"])
def test_a_task_with_too_few_problems_is_refused_before_anything_runs(plat, spec, home, verb):
    small = "title: A test\nbase: {task: frozenlake, task.env.size: 2, scale: smoke}\nmatrix:\n  seed: [0, 1]\n"
    overrides = ["task=frozenlake", "task.env.size=2", "scale=smoke"]
    code, _, err = plat(verb, *(overrides if verb == "run" else [spec(small)]))
    assert code == 2 and "7 different problems for validation, 8 are asked for" in err
    assert "fix: eval.instances=7" in err and not home.exists()


def test_a_trainers_check_is_asked_once_for_what_it_reads(spec, toy_paper, monkeypatch):
    """A matrix of many seeds would else build as many configs."""
    import plat_toy

    asked = []
    monkeypatch.setattr(plat_toy.Toy, "check", lambda self, config: asked.append(config.mischief))
    text = "title: A test\nbase: {trainer: 'plat_toy:Toy'}\nmatrix: {mischief: [none, slow], seed: range(20)}\n"
    (experiment,) = load_experiments([spec(text)], [])
    check_runs(experiment.runs)
    assert sorted(asked) == ["none", "slow"]


HUGE = "title: A test\nbase: {trainer: 'plat_toy:Toy', mischief: huge}\nmatrix:\n  seed: [0]\n"


def test_what_this_machine_is_too_small_for_is_refused_here_alone(plat, spec, home, toy_paper, monkeypatch):
    monkeypatch.syspath_prepend(str(toy_paper))
    for command in (["run", "trainer=plat_toy:Toy", "mischief=huge"], ["sweep", spec(HUGE)]):
        code, _, err = plat(*command)
        assert code == 2 and "the toy has no room here" in err and "fix: mischief=none" in err
    code, out, err = plat("plan", spec(HUGE))
    assert code == 0 and "1 of 1 run to do" in out and err.startswith("warning: not on this machine: ")
    assert "no cluster profile" in plat("sweep", spec(HUGE), "--on", "slurm", "cluster=nosuch")[2]
    assert not home.exists()


def test_an_override_that_changes_nothing_is_met_with_the_reason(plat, spec):
    file = spec(GOOD + "  algorithm: [grpo, ppo]\n")
    code, _, err = plat("plan", file, "matrix.algorithm=[grpo,dapo]", "train.critic_lr=0.1", "train.lr=0.1")
    assert code == 0 and err == "warning: train.critic_lr has no effect: the algorithm dapo has no critic\n"
    assert plat("plan", file, "train.critic_lr=0.1")[2] == "", "ppo has a critic"
    assert "has no effect" in plat("plan", file, "matrix.algorithm=[ppo]", "matrix.algorithm.norm_by_std=[true]")[2]


def test_an_axis_that_changes_nothing_is_met_with_the_reason(plat, spec):
    def warnings(axes):
        code, _, err = plat("plan", spec(GOOD + axes))
        assert code == 0
        return err

    told = warnings("  filter.value: [0.5, 0.9]\n")
    assert "the runs of the axis filter.value cannot differ: there is no filter" in told
    assert "the filter rule top_k does not use it" in warnings("  filter: [top_k]\n  filter.eps: [0.01, 0.1]\n")
    assert warnings("  filter: [top_p, top_k]\n  filter.value: [0.5, 0.9]\n") == "", "both use it"


def test_positions_that_share_runs_are_counted_with_the_reason(plat, spec):
    def warnings(axes, *overrides):
        path = spec(GOOD.replace("seed: [0]", "seed: [0, 1]") + axes)
        code, _, err = plat("plan", path, *overrides)
        assert code == 0 and err.count("\n") == err.count(f": {path}: "), err
        return err.replace(f"note: {path}: ", "").replace(f"warning: {path}: ", "")

    two = "  filter: [none, top_p]\n  filter.value: [0.5, 0.7, 0.9]\n"
    assert warnings(two) == (
        "4 of 12 positions share their runs with others, differing in filter.value alone: there is no filter\n"
    )
    assert warnings(two, "matrix.seed=[0]").startswith("2 of 6 positions share their runs")
    assert warnings(two, "filter=top_p") == ""
    excluded = "exclude: [{filter: none, filter.value: 0.5}, {filter: none, filter.value: 0.7}]\n"
    assert warnings(two + excluded) == "", "one run without a filter is left for each seed"
    both = "  filter: [none, top_p]\n  filter.value: [0.5, 0.9]\n  filter.eps: [0.01, 0.1]\n"
    told = warnings(both)
    assert "2 of 16 positions share their runs with others, differing in filter.value alone" in told
    assert "2 of 16 positions share their runs with others, differing in filter.value and filter.eps alone" in told
    whole = warnings(
        "  filter: [none, top_p]\n  filter.value: [0.5, 0.9]\n  algorithm: [grpo]\n  train.critic_lr: [0.1, 0.2]\n"
    )
    assert "the runs of the axis train.critic_lr cannot differ" in whole and "2 of 16 positions share" in whole


def test_a_value_of_base_that_changes_nothing_is_met_with_its_place(plat, spec):
    text = GOOD.replace("{scale: smoke}", "{scale: smoke, filter.value: 0.5}")
    path = spec(text)
    assert plat("plan", path)[2] == f"warning: {path}:2:22: filter.value has no effect: there is no filter\n"
    assert plat("plan", spec(text + "  filter: [none, top_p]\n"))[2] == "", "Top-p uses it"
    assert plat("plan", path, "matrix.filter=[none]")[2] == "", (
        "what the command line has made so is no fault of the file"
    )


def test_the_files_of_this_repository_have_no_part_without_effect(capfd):
    from plat.app.checking import warn_of_idle_parts

    files = [
        path
        for path in sorted((ROOT / "experiments").rglob("*.yaml"))
        if path.parent.name not in ("papers", "published")
    ]
    assert len(files) > 20
    warn_of_idle_parts([load_experiment(path) for path in files], ())
    assert capfd.readouterr().err == ""


def test_planning_runs_no_code_of_the_current_folder(tmp_path, spec):
    (tmp_path / "innocent.py").write_text("print('I ran')")
    (tmp_path / "x-1.dist-info").mkdir()
    (tmp_path / "x-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: x\nVersion: 1\n")
    (tmp_path / "x-1.dist-info" / "entry_points.txt").write_text("[plat.trainers]\ninnocent = innocent:SPEC\n")
    spec("title: A test\nbase: {trainer: innocent}\n")
    command = [sys.executable, "-m", "plat", "plan", "small.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.returncode == 2 and "unknown trainer 'innocent'" in done.stderr and "I ran" not in done.stdout


def test_plan_names_the_home_that_it_looked_at(plat, spec, home, tmp_path):
    """In the wrong working directory everything seems to be missing."""
    assert f"home: {home} (there is none yet" in plat("plan", spec(GOOD))[1]
    home.mkdir()
    (home / "runs").mkdir()
    assert plat("plan", spec(GOOD))[1].endswith(f"home: {home}\n")
    assert json.loads(plat("plan", spec(GOOD), "--json")[1])["home"] == str(home)


@pytest.mark.parametrize(("name", "verb"), [("PLAT_ALLOW_IMPORT", "plan")])
def test_a_switch_that_is_neither_on_nor_off_is_refused_before_anything_is_made(
    plat, spec, home, monkeypatch, name, verb
):
    monkeypatch.setenv(name, "banana")
    code, _, err = plat(verb, spec("title: t\nbase: {trainer: 'plat_toy:Toy'}\nmatrix: {seed: [0]}\n"))
    assert code == 2 and not home.exists()
    assert f"{name} is 'banana', which is neither on nor off" in err and "set it to 1, or to 0" in err
