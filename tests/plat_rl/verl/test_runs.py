"""Whole runs with verl on two CPU cores, started as users start them: real Ray, FSDP workers, rollout servers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from verl_processes import LIMIT, PPO, events, history, run

pytestmark = pytest.mark.verl


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("verl")


GRADIENT_PROBE = ("gradient.every=2", "gradient.prompts=4", "gradient.group_size=3", "gradient.buckets=3")
ALGORITHMS = {
    "ppo": PPO,
    "grpo, with a reference policy": ("algorithm=grpo", "filter=top_p", "algorithm.kl_coef=0.01"),
    "dapo on two workers": ("algorithm=dapo", "filter=none", "verl.workers=2"),
    "turns, each a sequence, with a reference policy on two workers, ppo": (
        "algorithm=ppo", "train.context=current", "algorithm.loss_agg=seq-mean-token-mean", "algorithm.kl_coef=0.01",
        "filter=top_k", "filter.value=0.5", "verl.workers=2", *GRADIENT_PROBE,
    ),
    "drgrpo with adapters": ("algorithm=drgrpo", "filter=top_k", "filter.value=0.5", "verl.lora_rank=4"),
}  # fmt: skip


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_runs_from_its_beginning_to_its_end(home: Path, undisturbed: Path, name: str) -> None:
    place = undisturbed if name == "ppo" else home / name.split()[0].strip(",")
    result = run(place, *ALGORITHMS[name])  # what is done already is told at once
    assert result["outcome"] == "finished" and result["step"] == 3
    metrics = history(place)
    for step in (1, 2, 3):
        assert metrics[step, "filter/updates"] == 2 and metrics[step, "actor/grad_norm"] > 0
        assert 0 < metrics[step, "filter/kept_prompts"] <= 2
        assert ((step, "critic/grad_norm") in metrics) == ("ppo" in name)
        assert ((step, "actor/kl") in metrics) == ("reference" in name)
        # In merged adapters the rollout has weights that were rounded to bfloat16.
        assert metrics[step, "mi/score_gap"] < (0.05 if "adapters" in name else 1e-4)
        assert metrics[step, "rollout/cut"] == 0
    for event in ("val/success", "heldout/final_success", "probe/retrieval_acc"):
        assert any(metric == event for _, metric in metrics)
    probed = {step for step, metric in metrics if metric.startswith("grad/")}
    assert probed == ({1, 3} if "turns" in name else set())
    for step in probed:
        assert metrics[step, "grad/q1/reward_std_max"] <= metrics[step, "grad/q3/reward_std_min"]
        assert metrics[step, "grad/q3/task"] > 0 < metrics[step, "grad/q3/entropy"]
        assert metrics[step, "grad/q3/prompts"] == 1 and (step, "grad/q3/kl") in metrics
    tables = {event["table"] for event in events(place) if "table" in event}
    assert tables == {"reward_matrix", "val_instances", "probe", "heldout_base", "heldout_peak", "heldout_final"}


def test_nothing_of_a_run_on_one_machine_can_be_reached_from_another(undisturbed: Path) -> None:
    sockets = json.loads((undisturbed / "sockets.json").read_text())
    assert sockets["seen"] > 5 and sockets["exposed"] == []


def test_the_names_are_those_of_the_embedded_trainer(home: Path, undisturbed: Path) -> None:
    place = home / "embedded"
    command = ["run", "scale=smoke", "task=sokoban", "algorithm=ppo", "filter=top_p", "train.context=full"]
    base = [
        "model.shape={layers: 1, width: 32, heads: 2, kv_heads: 2, ffn: 64}",
        "model.base={steps: 1500, batch: 64, pool: 20000, lr: 0.005}",
    ]
    subprocess.run([sys.executable, "-m", "plat", *command, *base, "--home", str(place)], check=True, timeout=LIMIT)
    ours = {name for _, name in history(undisturbed)}
    theirs = {name for _, name in history(place)}
    only_here = {"rollout/cut", "mi/score_gap"}
    assert ours - theirs <= only_here | {name for name in ours if "/level/" in name or name.startswith("probe/")}
    assert theirs - ours <= {"probe/retrieval_untrained"} | {name for name in theirs if name.startswith("probe/")}


def test_a_long_start_says_what_it_is_doing(undisturbed: Path) -> None:
    (said,) = undisturbed.glob("runs/*/*/attempts/*/status.txt")
    assert said.read_text().startswith("verl has started")


def test_a_kept_checkpoint_is_as_good_when_it_is_evaluated_again(undisturbed: Path) -> None:
    """`plat eval` has the very results that the run had, and prints nothing of what verl and Ray say."""
    (result_file,) = undisturbed.glob("runs/*/*/result.json")
    command = ["eval", result_file.parent.name, "--json", "--home", str(undisturbed)]
    done = subprocess.run([sys.executable, "-m", "plat", *command], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    again = json.loads(done.stdout)["result"]
    (heldout,) = (event["data"] for event in events(undisturbed) if event.get("table") == "heldout_peak")
    assert again["split"] == "heldout" and again["instances"] == 8
    measured = {name: values for name, values in heldout.items() if isinstance(values, list)}
    assert len(set(measured["return"])) > 1, "equal results of all instances would show nothing"
    assert again["results"] == measured
    assert done.stderr == ""
