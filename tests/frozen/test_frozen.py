"""What must not change by accident: the ids of runs, the bytes of shipped bases, defaults, and the numbers of training.

A new name (a metric, a key, a preset) is only added: freeze the new state with

    python tests/frozen/test_frozen.py

which writes the three JSON files beside this one, and leaves numbers within the tolerance as they are.

A changed value means that earlier results no longer belong to the runs of the same name, or that the same run gives
other numbers. If that is meant: raise `SCHEME` (plat.spec.identity.run_identity), the trainer's `version` or
`BUILD_VERSION` (plat_rl.embedded.base_model.base_record), whichever it concerns, say in CHANGELOG.md what is not
comparable any more, and freeze the new state. `python tests/mutations.py` shows what these tests catch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from plat import conf
from plat.spec.composition.schema import schema_of
from plat.spec.expansion.experiment import build_run, config_object, load_experiments
from plat.spec.identity import run_identity
from plat.trainer.finding import find_trainer
from plat_envs.api import find_environment
from plat_rl.embedded.base_model.base_record import (
    BUILD_VERSION,
    SHIPPED,
    Corpus,
    base_key,
    read_base,
    records_in,
    tasks_of,
)
from plat_rl.run_config import BaseConfig, ModelConfig

HERE = Path(__file__).parent
EXPERIMENTS = HERE.parents[1] / "experiments"
HOW = "new names: `python tests/frozen/test_frozen.py` freezes them; changed values: see the top of that file"

GOLDEN_RUNS = (
    (),
    ("seed=3",),
    ("task=sokoban", "algorithm=grpo", "filter=top_p"),
    ("task=metamathqa", "algorithm=drgrpo", "model=qwen2.5-7b", "train.lr=1e-3"),
    ("task=countdown", "algorithm=dapo", "filter=within_group", "eval.temperature=0"),
    ("task.env.success_rate=1.0", "algorithm=dapo_released", "filter.value=0.5"),
    ("model=qwen2.5-1.5b", "model.base.grounded=0.2"),
    ("model.base.seed=5",),
    ("scale=smoke", "threads=2"),
)
CURVES = {  # every algorithm and every task once, from the smallest shipped base
    "ppo": ("task=sokoban", "filter=none"),
    "grpo": ("task=frozenlake", "filter=top_p", "algorithm.kl_coef=0.01"),
    "drgrpo": ("task=metamathqa", "filter=none"),
    "dapo": ("task=countdown", "filter=top_p"),
}
SMALL = (
    "model=qwen2.5-0.5b", "train.iterations=3", "train.prompts=4", "train.group_size=8", "train.mini_batches=2",
    "eval.every=1", "eval.instances=48", "eval.heldout=16", "mi.every=1", "mi.samples=16", "mi.probe=16",
)  # fmt: skip
TINY_BASE = ("scale=smoke", "model.base.steps=150", "model.base.pool=80", "model.base.grounded=0.4")
# Another CPU adds the same numbers in another order. Between torch's three sets of CPU kernels (AVX-512, AVX2, neither:
# ATEN_CPU_CAPABILITY) no metric of three iterations was seen to differ by more than 1.1e-5, relative to its value (or
# absolutely, below 1), and no loss of the tiny base at all.
CURVE_TOLERANCE = 1e-4
LOSS_TOLERANCE = 1e-3


# --- what is frozen, as it is now ------------------------------------------------------------------------------------


def current_identity() -> dict[str, Any]:
    """The scheme of ids, some ids with their names, and the content of the shipped bases."""
    runs = {" ".join(overrides): build_run(overrides) for overrides in GOLDEN_RUNS}
    records, damaged = records_in(SHIPPED)
    assert not damaged, damaged[0].render()
    return {
        "scheme": run_identity.SCHEME,
        "of_another_trainer": run_identity.identity(
            [
                '"lr":' + run_identity.canonical(1e-3),
                '"task":' + run_identity.canonical({"size": 4, "name": "märchen"}),
            ],
            run_identity.canonical(["toy", "1.0", [("task.name", "2")], {"data": None}]),
        ),
        "trainer_version": find_trainer("embedded").version,
        "build_version": BUILD_VERSION,
        "runs": {spelling: run.name.removesuffix(run.id[:8]) + run.id for spelling, run in runs.items()},
        "bases": {record.folder.name: {"model": record.model, "sha256": record.sha256} for record in records},
    }


def current_keys() -> dict[str, Any]:
    """Every key with its default, `legacy` values, operational keys, config groups, and options of environments."""
    spec = find_trainer("embedded")
    folder = Path(str(conf.__file__)).parent
    environments = {}
    for name in tasks_of(ModelConfig().base.version):
        environment = find_environment(name)
        environments[name] = {
            "version": environment.version,
            "options": schema_of(environment.config_type).defaults,
            "legacy": dict(getattr(environment, "legacy", {})),
        }
    state = {
        "operational": sorted(spec.operational_keys),
        "legacy": dict(spec.legacy),
        "defaults": _flat(schema_of(spec.config_type).defaults),
        "composed": _flat(build_run([]).config),
        "groups": {
            str(file.relative_to(folder).with_suffix("")): yaml.safe_load(file.read_text())
            for file in sorted(folder.rglob("*.yaml"))
        },
        "environments": environments,
    }
    return json.loads(json.dumps(state))  # type: ignore[no-any-return]


def current_curves(cache: Path) -> dict[str, Any]:
    """Metrics of steps 0 to 3 under every algorithm; the demonstrations and the losses of a tiny base."""
    import torch

    from plat_rl.embedded.base_model.load import corpus, train_base
    from plat_rl.embedded.transformer import hf
    from plat_rl.embedded.transformer.tokenizer import WordTokenizer

    torch.set_num_threads(1)
    spec = find_trainer("embedded")
    curves = {}
    for algorithm, overrides in CURVES.items():
        recorder = Recorder(cache)
        spec.train(config_object(build_run([*SMALL, f"algorithm={algorithm}", *overrides]), spec), recorder)
        curves[algorithm] = recorder.metrics
    model = config_object(build_run(TINY_BASE), spec).model
    tokenizer = WordTokenizer()
    flat, losses = train_base(model.base, hf.shape_of(model.shape, tokenizer.vocabulary), tokenizer)
    few = BaseConfig(pool=400, grounded=0.4, seed=1)
    shown = {
        task: hashlib.sha256(json.dumps(corpus(Corpus(task), few, tokenizer)).encode()).hexdigest()
        for task in tasks_of(model.base.version)
    }
    return {
        "curves": curves,
        "demonstrations": shown,
        "tiny_base": {"losses": losses, "norm": float(flat.norm()), "largest": float(flat.abs().max())},
    }


@dataclass
class Recorder:
    """A RunIO that keeps metrics (`name@step`) but timings, and the newest checkpoints."""

    cache: Path

    def __post_init__(self) -> None:
        self.metrics: dict[str, float] = {}
        self.newest: Any = None
        self.peak: Any = None

    def facts(self, facts: Mapping[str, Any]) -> None: ...

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        kept = {name: value for name, value in metrics.items() if not name.startswith(("time/", "mem/"))}
        self.metrics |= {f"{name}@{step}": float(f"{value:.9g}") for name, value in kept.items()}

    def table(self, name: str, step: int, data: Any) -> None: ...

    def save(self, step: int, state: Any, *, peak: bool = False, write_files: Any = None) -> None:
        self.newest = (step, state)
        self.peak = (step, state) if peak else self.peak

    def restore(self) -> None:
        return None

    def load_peak(self) -> Any:
        return self.peak

    def should_stop(self) -> bool:
        return False


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, dict) or not value:
        return {prefix: value}
    return {
        key: leaf for name, inner in value.items() for key, leaf in _flat(inner, f"{prefix}.{name}".lstrip(".")).items()
    }


# --- the tests -------------------------------------------------------------------------------------------------------


def frozen(name: str) -> dict[str, Any]:
    return json.loads((HERE / f"{name}.json").read_text())  # type: ignore[no-any-return]


def test_ids_and_shipped_bases() -> None:
    assert current_identity() == frozen("identity"), HOW


def test_keys_defaults_and_legacy_values() -> None:
    assert current_keys() == frozen("keys"), HOW


def test_a_legacy_value_is_a_valid_value() -> None:
    spec = find_trainer("embedded")
    for key, value in spec.legacy.items():
        schema_of(spec.config_type).check(key, value)


def test_every_base_that_an_experiment_names_is_shipped() -> None:
    """No experiment of this repository, at its own scale, makes a newcomer wait for a base model."""
    runs = [run for experiment in load_experiments(sorted(EXPERIMENTS.glob("*.yaml"))) for run in experiment.runs]
    assert {run.trainer for run in runs} == {"embedded"} and len(runs) > 100
    missing = {run.config["model"]["name"] for run in runs if run.prepare is not None}
    assert not missing, "plat base build experiments/*.yaml --out platform/plat_rl/bases"


def test_shipped_bases_are_whole_small_and_named_by_an_experiment() -> None:
    """Each is one of three builds of a recipe in use, or the build that is named, whole; together they stay small."""
    records, damaged = records_in(SHIPPED)
    assert not damaged and records
    for record in records:
        assert read_base(record.folder, record.recipe_hash) == record
        assert (record.folder / "model.safetensors").stat().st_size >= 4 * record.parameters, "float32"
    assert sum(file.stat().st_size for file in SHIPPED.rglob("*")) < 14_000_000
    runs = [run for experiment in load_experiments(sorted(EXPERIMENTS.glob("*.yaml"))) for run in experiment.runs]
    spec = find_trainer("embedded")
    models = [config_object(run, spec).model for run in {json.dumps(run.config["model"]): run for run in runs}.values()]
    builds = {
        base_key(replace(model, base=replace(model.base, seed=seed)))
        for model in models
        for seed in {0, 1, 2, model.base.seed}
    }
    assert {record.folder.name for record in records} <= builds


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return current_curves(tmp_path_factory.mktemp("cache"))


@pytest.mark.parametrize("algorithm", CURVES)
def test_three_iterations_of_each_algorithm(curves: dict[str, Any], algorithm: str) -> None:
    apart = differences(curves["curves"][algorithm], frozen("curves")["curves"][algorithm], CURVE_TOLERANCE)
    assert not apart, "\n".join([*apart, HOW])


def test_demonstrations_and_the_training_of_a_base(curves: dict[str, Any]) -> None:
    before = frozen("curves")
    assert curves["demonstrations"] == before["demonstrations"]
    losses, expected = (
        {f"loss {at}": loss for at, loss in enumerate(c["tiny_base"]["losses"])} for c in (curves, before)
    )
    assert differences(losses, expected, LOSS_TOLERANCE) == []
    sizes = [{name: recorded["tiny_base"][name] for name in ("norm", "largest")} for recorded in (curves, before)]
    assert differences(*sizes, LOSS_TOLERANCE) == []


def differences(now: Mapping[str, float], before: Mapping[str, float], tolerance: float) -> list[str]:
    """The names that are new, gone, or further apart than the tolerance, with both values."""
    apart = []
    for name in sorted({*now, *before}):
        new, old = now.get(name), before.get(name)
        if new is None or old is None:
            apart.append(f"{name}: {old} -> {new}")
        elif not (math.isnan(new) and math.isnan(old)) and not abs(new - old) <= tolerance * max(1.0, abs(old)):
            apart.append(f"{name}: {old:.9g} -> {new:.9g}")
    return apart


def kept(now: Any, before: Any, tolerance: float = CURVE_TOLERANCE) -> Any:
    """Return the new state, with each number that did not leave the tolerance as it was frozen."""
    if isinstance(now, dict) and isinstance(before, dict):
        return {name: kept(value, before.get(name), tolerance) for name, value in now.items()}
    if isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        return [kept(*pair, tolerance) for pair in zip(now, before, strict=True)]
    numbers = isinstance(now, float) and isinstance(before, float)
    return before if numbers and not differences({"": now}, {"": before}, tolerance) else now


def test_freezing_again_keeps_what_is_within_the_tolerance() -> None:
    before = {"a": [1.0, 2.0], "gone": 1.0, "text": "x"}
    assert kept({"a": [1.00001, 2.1], "new": 3.0, "text": "y"}, before) == {"a": [1.0, 2.1], "new": 3.0, "text": "y"}


def freeze() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as cache:
        curves = current_curves(Path(cache))
    curves = kept(curves, frozen("curves"))
    for name, state in (("identity", current_identity()), ("keys", current_keys()), ("curves", curves)):
        (HERE / f"{name}.json").write_text(json.dumps(state, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    freeze()
