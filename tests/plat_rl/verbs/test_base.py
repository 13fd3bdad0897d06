"""`plat base list|build|verify` as a user meets it, and the intervals that the verdict of `verify` rests on."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sweep_processes import wait_for

from plat_rl.embedded.base_model import base_record
from plat_rl.embedded.base_model.base_record import base_key, recipe_hash
from plat_rl.embedded.base_model.builds import AS_GOOD, UNDECIDED, WORSE, model_of, paired_difference, verdict

SMOKE = "title: t\nbase: {scale: smoke}\nmatrix: {model: [qwen2.5-0.5b, llama3.2-3b], filter: [none, top_p]}\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PLAT_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(base_record, "SHIPPED", tmp_path / "package")
    monkeypatch.setattr(base_record, "SHIPPED_KEYS", ())
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


def test_from_a_recipe_to_a_verdict(plat: Any, tmp_path: Path, home: Path) -> None:
    """List what is missing, build it, make it travel, verify it, damage it."""
    folder = tmp_path / "experiments"
    folder.mkdir()
    (folder / "small.yaml").write_text(SMOKE)
    (folder / "broken.yaml").write_text("title: [")
    code, out, err = plat("base", "list", "--json")
    listed = json.loads(out)
    # The two models of this scale differ in the seed of their bases alone.
    assert code == 0 and listed["bases"] == [] and len(listed["missing"]) == 2
    assert all(missing["named_by"] == ["small"] for missing in listed["missing"]) and "broken.yaml is left out" in err
    assert not home.exists(), "listing writes nothing"

    code, out, err = plat("base", "build", folder / "small.yaml", "--json")
    built = json.loads(out)["bases"]
    assert code == 0 and [base["where"] for base in built] == ["built here"] * 2
    assert {Path(base["folder"]).parent for base in built} == {home / "cache" / "bases"}
    code, out, _ = plat("base", "list")
    assert code == 0 and "built here" in out and "to build" not in out
    for name in ("an_experiment_file_with_a_long_name", "another_experiment_file_with_a_long_name"):
        (folder / f"{name}.yaml").write_text(SMOKE)
    code, out, _ = plat("base", "list")
    assert code == 0 and "named by an_experiment_file_with_a_long_name" in out
    assert max(map(len, out.splitlines())) <= 80

    shutil.copytree(home / "cache" / "bases", tmp_path / "package")
    code, out, _ = plat("base", "build", "scale=smoke", "model=qwen2.5-0.5b")
    assert code == 0 and "shipped" in out, "what is shipped is not built again"
    code, out, err = plat(
        "base", "verify", "scale=smoke", "model=qwen2.5-0.5b", "--instances", 16, "--margin", 0.5, "--json"
    )
    verified = json.loads(out)
    assert code == 0 and verified["as_good"]
    assert [task["task"] for task in verified["bases"][0]["tasks"]] == [
        "sokoban",
        "frozenlake",
        "metamathqa",
        "countdown",
    ]
    assert all(task["instances"] == 16 and task["low"] <= 0 <= task["high"] for task in verified["bases"][0]["tasks"])

    weights = tmp_path / "package" / Path(built[0]["folder"]).name / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"\x7f")
    code, out, err = plat("base", "list")
    assert code == 3 and "model.safetensors: its hash does not match" in err
    code, out, err = plat("base", "verify")
    assert code == 2 and str(weights) in err and "fix:" in err
    code, out, err = plat("plan", folder / "small.yaml")
    assert code == 2 and "is shipped with plat is damaged" in err and str(weights) in err


def test_a_base_that_sees_is_verified_on_pictures_and_on_what_it_knows(plat: Any, tmp_path: Path) -> None:
    seeing = ("scale=smoke", "model=qwen2.5-vl-3b", "model.base.steps=2", "model.base.pool=20")
    plat("base", "build", *seeing, "--out", tmp_path / "package")
    plat("base", "build", "scale=smoke", "--out", tmp_path / "package")
    _, out, _ = plat("base", "verify", "--instances", 4, "--json")
    tasks = {base["model"]: [task["task"] for task in base["tasks"]] for base in json.loads(out)["bases"]}
    assert tasks.pop("qwen2.5-vl-3b") == ["sokoban", "frozenlake", "sokoban (pictures)", "frozenlake (pictures)"]
    assert [*tasks.values()] == [["sokoban", "frozenlake", "metamathqa", "countdown"]]


def test_too_few_instances_prove_nothing(plat: Any, tmp_path: Path) -> None:
    plat("base", "build", "scale=smoke", "--out", tmp_path / "package")
    code, out, _ = plat("base", "verify", "--instances", 4, "--margin", 0.01)
    assert code == 3 and "undecided" in out


def building(home: Path) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """Start a build that takes long, and return the command and the processes that build."""
    command = [sys.executable, "-m", "plat", "base", "build", "model.base.seed=77", "--home", str(home)]
    parent = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: any((home / "cache" / "bases").glob(".v2-*")))  # a build has begun
    return parent, psutil.Process(parent.pid).children()


def test_a_killed_command_leaves_no_builder_and_no_semaphore(home: Path) -> None:
    before = set(Path("/dev/shm").glob("sem.mp-*"))
    parent, builders = building(home)
    parent.kill()
    parent.communicate(timeout=30)
    assert builders
    wait_for(lambda: not any(process.is_running() and process.status() != "zombie" for process in builders))
    assert set(Path("/dev/shm").glob("sem.mp-*")) <= before


def test_a_killed_builder_is_one_sentence(home: Path) -> None:
    parent, builders = building(home)
    for process in builders:
        process.kill()
    said = parent.communicate(timeout=60)[1]
    assert parent.returncode == 2 and "ended with SIGKILL" in said and "--jobs" in said
    assert "mistake in plat" not in said and "Traceback" not in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["base", "verify"], "no base model is shipped"),
        (["base", "verify", "scale=smoke"], "no base model of this recipe is shipped"),
        (["base", "build", "model=qwen"], "qwen"),
        (["base", "build", "model.base.version=v0"], "no base version 'v0'"),
        (["base", "build", "nowhere.yaml"], "nowhere.yaml"),
        (["base", "burn"], "No such command"),
    ],
)
def test_bad_input_is_one_message(plat: Any, arguments: list[str], message: str, home: Path) -> None:
    code, _, err = plat(*arguments)
    assert code == 2 and message in err and not home.exists()


def test_a_record_asks_for_its_own_base(plat: Any, tmp_path: Path) -> None:
    plat("base", "build", "scale=smoke", "model=llama3.2-3b", "--out", tmp_path / "package")
    (known,), _ = base_record.records_in(tmp_path / "package")
    assert recipe_hash(model_of(known)) == known.recipe_hash and base_key(model_of(known)) == known.folder.name


# --- the interval -----------------------------------------------------------------------------------------------------

successes = st.integers(20, 200).flatmap(
    lambda count: st.tuples(*[st.lists(st.integers(0, 1), min_size=count, max_size=count)] * 2)
)


@given(successes)
def test_the_interval_surrounds_the_difference_and_mirrors(pair: tuple[list[int], list[int]]) -> None:
    first, second = pair
    difference, low, high = paired_difference(first, second)
    assert difference == pytest.approx(sum(second) / len(second) - sum(first) / len(first))
    assert -1 <= low < high <= 1
    mirrored, least, most = paired_difference(second, first)
    assert (mirrored, least, most) == pytest.approx((-difference, -high, -low))


def test_the_interval_covers_as_often_as_it_says() -> None:
    """Pairs of two dependent coins, 1,000 times: about 95 % of the intervals hold the true difference."""
    import numpy as np

    rng = np.random.default_rng(0)
    for rate, gain in ((0.3, 0.0), (0.5, 0.1), (0.02, 0.0)):
        covered = 0
        for _ in range(1000):
            first = rng.random(256) < rate
            second = np.where(rng.random(256) < 0.6, first, rng.random(256) < rate + gain / 0.4)
            _, low, high = paired_difference(first.astype(int).tolist(), second.astype(int).tolist())
            covered += low <= gain <= high
        assert covered >= 930


def test_a_verdict_needs_evidence() -> None:
    assert verdict(-0.05, 0.04, 0.1) == AS_GOOD
    assert verdict(-0.30, -0.15, 0.1) == WORSE
    assert verdict(-0.15, 0.02, 0.1) == verdict(-0.2, -0.05, 0.1) == UNDECIDED


def test_the_list_says_in_what_bases_of_one_model_differ() -> None:
    from plat_rl.verbs.base import table

    def base(model: str, **settings: Any) -> dict[str, Any]:
        return {"model": model, "seed": 0, "recipe_hash": "x", "named_by": [], "settings": {"seed": 0, **settings}}

    lines = table([], [base("a", grounded=0.2, lr=1), base("a", grounded=0.5, lr=1), base("b", grounded=0.1)])
    _, first, second, other = lines.splitlines()
    assert first.endswith("grounded 0.2") and second.endswith("grounded 0.5") and "grounded" not in other
