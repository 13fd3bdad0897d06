"""What the platform sees of the trainer with verl: refusals, resources and identities, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from plat import extras
from plat.errors import SpecError
from plat.planning.check import check_machine
from plat.processes.own_process import usable_cores
from plat.spec.expansion.experiment import build_run
from plat.store.home import Home
from plat_rl.embedded.base_model.base_record import SHIPPED, records_in
from plat_rl.verl.settings.models import (
    KEPT,
    PAPER_MODELS,
    checkpoint_bytes,
    checkpoint_size,
    gpu_gigabytes,
    host_gigabytes,
    minutes,
    workers,
)
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.spec import VerlTrainer

Make = Callable[..., VerlRunConfig]
PAPER = ("trainer=verl", "scale=paper", "task=sokoban", "algorithm=ppo")


def test_the_papers_settings_make_a_run_with_gpus() -> None:
    run = build_run(list(PAPER))
    assert run.trainer == "verl" and run.resources["gpus"] == 4 and run.resources["threads"] == 3 * 4 + 8
    assert run.fingerprint["base"] == {"hub": "Qwen/Qwen2.5-3B"}
    assert build_run([*PAPER, "model=qwen2.5-0.5b"]).resources["gpus"] == 1
    assert build_run([*PAPER, "model=qwen2.5-7b"]).resources["gpus"] == 8
    assert build_run([*PAPER, "model=qwen2.5-7b", "verl.workers=16"]).resources["gpus"] == 16


@pytest.mark.parametrize("name", sorted(PAPER_MODELS))
def test_a_model_gets_as_few_gpus_as_it_fits_into(make_config: Make, name: str) -> None:
    config = make_config("algorithm=ppo")
    config.train.rendering, config.device, config.model.paper_name = "chat", "cuda", name
    count = workers(config)
    assert gpu_gigabytes(config, count) <= 72 and (count == 1 or gpu_gigabytes(config, count // 2) > 72)


def write_checkpoint(folder: Path, billions: float, vocabulary: int) -> None:
    """The header of a checkpoint of this size, without its numbers."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"vocab_size": vocabulary}))
    entries = {"a": {"dtype": "F32", "shape": [1000, 500], "data_offsets": [0, 0]}}
    entries["b"] = {"dtype": "F32", "shape": [round(billions * 1e9) - 500_000], "data_offsets": [0, 0]}
    header = json.dumps({**entries, "__metadata__": {"format": "pt"}}).encode()
    (folder / "model.safetensors").write_bytes(len(header).to_bytes(8, "little") + header)


def test_a_checkpoint_of_ones_own_has_its_own_size(make_config: Make, tmp_path: Path) -> None:
    """It was taken for the paper's model of 3.09 billion parameters."""
    asked = {}
    for name, billions in (("small", 0.135), ("paper", 3.086), ("large", 7.616)):
        write_checkpoint(tmp_path / name, billions, 152064)
        config = make_config("algorithm=ppo", f"model.path={tmp_path / name}")
        config.train.rendering, config.device = "chat", "cuda"
        asked[name] = workers(config), host_gigabytes(config), checkpoint_bytes(config), minutes(config)
    assert [gpus for gpus, *_ in asked.values()] == [1, 4, 8]
    assert all(list(values) == sorted(values) for values in zip(*asked.values(), strict=True))
    assert asked["small"][2] == pytest.approx(KEPT * 24 * 135e6, rel=0.02)


@pytest.mark.parametrize("damage", ["", "{", '{"vocab_size": "many"}', None])
def test_a_checkpoint_that_cannot_be_read_is_named(make_config: Make, tmp_path: Path, damage: str | None) -> None:
    write_checkpoint(tmp_path / "one", 0.1, 1000)
    file = tmp_path / "one" / ("model.safetensors" if damage is None else "config.json")
    file.write_bytes(b"\xff" * 100 if damage is None else damage.encode())
    with pytest.raises(SpecError, match="cannot be read") as caught:
        checkpoint_size(tmp_path / "one")
    assert caught.value.where == "model.path"


def test_a_shipped_base_has_the_parameters_of_its_record() -> None:
    records, _ = records_in(SHIPPED)
    assert [checkpoint_size(record.folder).billions for record in records[:3]] == [
        pytest.approx(record.parameters / 1e9) for record in records[:3]
    ]


def test_a_model_that_fits_nowhere_is_refused(make_config: Make) -> None:
    config = make_config("algorithm=ppo", "verl.tokens_per_gpu=65536")
    config.train.rendering, config.device, config.model.paper_name = "chat", "cuda", "Qwen2.5-7B"
    with pytest.raises(SpecError, match="does not fit into 8 GPUs"):
        workers(config)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("dtype=bfloat16",), "on the CPU verl supports only dtype=float32"),
        (("verl.rollout=vllm",), "on the CPU verl supports only dtype=float32 and verl.rollout=hf"),
        (("device=cuda", "dtype=float16"), "does not support float16"),
        (("device=cuda", "verl.rollout=hf", "verl.tensor_parallel=2"), "a whole model in each process"),
        (("train.rendering=chat", "model.paper_name=GPT"), "no checkpoint is known for the model 'GPT'"),
        (("train.mini_batches=99",), "99 mini-batches of 8 trajectories"),
        (("algorithm=grpo", "train.group_size=1", "train.prompts=4"), "at least 2 rollouts"),
    ],
)
def test_what_cannot_run_is_refused_with_a_reason(make_config: Make, overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make_config(*overrides)


def test_a_smoke_run_starts_from_a_base_that_can_act(make_config: Make) -> None:
    config = make_config()
    assert config.model.base.steps == 1500 and config.model.shape.width == 32
    assert VerlTrainer().preparation(config) is None, "it travels with the package"
    assert make_config("model.base.steps=30").model.base.steps == 30, "an own choice stays"


def test_without_the_extra_the_message_says_what_to_install(make_config: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extras, "is_installed", lambda name: name != "peft")
    with pytest.raises(SpecError, match=r"not installed: peft") as caught:
        make_config("seed=77")
    assert caught.value.fix == "pip install 'plat[verl]'"


def test_what_never_changes_a_result_is_no_part_of_the_identity() -> None:
    plain = build_run([*PAPER])
    assert build_run([*PAPER, "verl.tokens_per_gpu=4096", "verl.gpu_memory=0.3", "verl.offload=true"]).id == plain.id
    assert build_run([*PAPER, "verl.lora_rank=8"]).id != plain.id
    assert build_run([*PAPER, "model=qwen2.5-7b"]).id != plain.id


def test_a_run_that_ran_out_of_memory_gets_smaller_micro_batches(make_config: Make) -> None:
    smaller = VerlTrainer().less_memory(make_config())
    assert smaller.verl.tokens_per_gpu == 8192
    smaller.verl.tokens_per_gpu = 1024
    assert VerlTrainer().less_memory(smaller) is None


def test_more_training_processes_than_cores_are_refused_on_this_machine(make_config: Make) -> None:
    check_machine = VerlTrainer().check_machine
    cores = usable_cores()
    check_machine(make_config(f"verl.workers={cores}"))
    with pytest.raises(SpecError, match=f"this machine has {cores}") as error:
        check_machine(make_config(f"verl.workers={cores + 1}"))
    assert f"verl.workers={cores}" in str(error.value.fix)
    gpus = ("device=cuda", "dtype=bfloat16", "verl.workers=1000")
    check_machine(make_config(*gpus, "verl.rollout=hf"))
    with pytest.raises(SpecError, match="the rollout engine sglang is not installed") as error:
        check_machine(make_config(*gpus, "verl.rollout=sglang"))
    assert "verl.rollout=hf" in str(error.value.fix)


def test_a_run_that_is_done_asks_nothing_of_this_machine(tmp_path: Path) -> None:
    run, home = build_run(["trainer=verl", "scale=smoke", "verl.workers=1000"]), Home(tmp_path)
    with pytest.raises(SpecError, match="1000 training processes"):
        check_machine([run], home)
    home.run(run.id).root.mkdir(parents=True)
    home.run(run.id).result.write_text("{}")
    check_machine([run], home)


@pytest.mark.parametrize(
    "override",
    [
        "task.reward_noise=0.1",
        "eval.trajectories=2",
        "train.precheck=8",
        "eval.reasoning_swap=true",
        "gradient.halves=true gradient.times=3",
    ],
)
def test_what_only_the_embedded_trainer_honours_is_refused(override: str) -> None:
    key = override.partition("=")[0]
    with pytest.raises(SpecError, match=f"cannot honour {key}") as caught:
        build_run([*PAPER, *override.split()])
    assert caught.value.where and "trainer=embedded" in str(caught.value.fix)
