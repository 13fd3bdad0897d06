"""An experiment comes out the same whichever trainer trains. Minutes on two cores, so it is left out by default:

pytest -m science tests/plat_rl/verl -s                       train into a folder of pytest's
PLAT_HOME=DIR pytest -m science tests/plat_rl/verl -s         go on from what is done in DIR
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from plat.spec.expansion.experiment import Experiment, config_object, load_experiment
from plat.spec.expansion.run import Run
from plat.store.home import Home
from plat.store.run_directory.checkpoint import valid_states
from plat.trainer.api import State
from plat_analysis.statistics.intervals import welch_lower_bound
from plat_rl.embedded.spec import EmbeddedTrainer

FILE = Path(__file__).parents[4] / "experiments" / "trainers" / "same_science.yaml"
LEARNED = 20.0  # points above the base model, at least
APART = 10.0  # points between the trainers' means, at most
VARIANTS = ("MetaMathQA PPO", "MetaMathQA GRPO")

Successes = dict[tuple[str, str], np.ndarray]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Home, Experiment]:
    """A home in which all runs are done."""
    folder = Path(os.environ.get("PLAT_HOME") or tmp_path_factory.mktemp("same_science"))
    command = [sys.executable, "-m", "plat", "sweep", str(FILE), "--home", str(folder), "--jobs", "1"]
    subprocess.run(command, check=True, timeout=7200)
    return Home(folder), load_experiment(FILE)


@pytest.fixture(scope="module")
def measured(trained: tuple[Home, Experiment]) -> tuple[Successes, Successes]:
    """Held-out success in percent as the runs measured it, by (variant, trainer): of the base, of the last policies."""
    from plat.store.mlflow.frames import Store

    home, experiment = trained
    keys = ("heldout/base_success", "heldout/final_success")
    frames = Store(home.store_uri(), home).load(experiment)
    place = frames.runs.set_index("run_id")[["axis.variant", "axis.trainer"]]
    joined = frames.metrics.join(place, on="run_id")

    def by_variant_and_trainer(key: str) -> Successes:
        groups = joined[joined["key"] == key].groupby(["axis.variant", "axis.trainer"])["value"]
        return {(str(variant), str(trainer)): 100 * values.to_numpy() for (variant, trainer), values in groups}

    base, final = map(by_variant_and_trainer, keys)
    return base, final


def check_that_they_agree(title: str, embedded: np.ndarray, verl: np.ndarray) -> None:
    """The 90 % interval (Welch) of the difference of the means over three seeds lies within ten points."""
    assert len(embedded) == len(verl) == 3
    low, high = welch_lower_bound(verl, embedded, 0.95), -welch_lower_bound(embedded, verl, 0.95)
    print(f"{title}: verl minus embedded {verl.mean() - embedded.mean():+.1f}, 90 % from {low:+.1f} to {high:+.1f}")
    assert -APART < low and high < APART


@pytest.mark.science
@pytest.mark.parametrize("variant", VARIANTS)
def test_both_trainers_learn_and_end_at_the_same_success(measured: tuple[Successes, Successes], variant: str) -> None:
    base, final = measured
    for trainer in ("embedded", "verl"):
        start, end = base[variant, trainer].mean(), final[variant, trainer]
        print(f"\n{variant}, {trainer}: from {start:.1f} to {', '.join(f'{success:.1f}' for success in end)} %")
        assert end.min() >= start + LEARNED
    check_that_they_agree(variant, final[variant, "embedded"], final[variant, "verl"])


@pytest.mark.science
@pytest.mark.parametrize("variant", VARIANTS)
def test_the_last_policies_are_as_good_where_both_are_played_by_the_embedded_trainer(
    trained: tuple[Home, Experiment], variant: str
) -> None:
    """Each trainer draws with random numbers of its own, for all its seeds alike; here both have the same ones."""
    home, experiment = trained
    runs = [run for run in experiment.runs if run.axes["variant"] == variant]
    config = config_object(next(run for run in runs if run.trainer == "embedded"), EmbeddedTrainer())
    successes = {
        trainer: np.array([100 * success(home, run, config) for run in runs if run.trainer == trainer])
        for trainer in ("embedded", "verl")
    }
    check_that_they_agree(f"{variant}, one way of playing", successes["embedded"], successes["verl"])


def success(home: Home, run: Run, config: Any) -> float:
    """Held-out success of a run's last policy, with the random numbers of the embedded trainer's evaluation."""
    from plat_rl.embedded.evaluate import evaluate_checkpoint

    attempts = home.run(run.id).attempts()
    _, _, state = next(valid_states([attempt.checkpoints for attempt in attempts]))
    if run.trainer == "verl":
        state = State({"actor.parameters": flat_parameters(state, config)})
    return float(evaluate_checkpoint(config, state, home.cache)["success"])


def flat_parameters(state: State, config: Any) -> Any:
    """The weights of a checkpoint of verl, written by one process, as the embedded trainer has them."""
    import torch

    from plat_rl.embedded.base_model.load import empty_model
    from plat_rl.embedded.transformer import hf

    assert state.files is not None
    tensors = torch.load(state.files / "actor" / "model_world_size_1_rank_0.pt", weights_only=False)
    whole = {
        name: tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor for name, tensor in tensors.items()
    }
    return hf.from_state_dict(empty_model(config)[0], whole)
