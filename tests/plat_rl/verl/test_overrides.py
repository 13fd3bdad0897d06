"""The run's config as verl's: composed by Hydra over verl's own defaults, and checked by verl's own classes."""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from plat.errors import SpecError
from plat_rl.verl.settings.composition import check, compose, run_config
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.settings.verl_overrides import overrides_of, response_tokens

Make = Callable[..., VerlRunConfig]


@pytest.mark.parametrize("algorithm", ["ppo", "grpo", "dapo", "drgrpo", "dapo_released"])
def test_verl_takes_every_algorithm(make_config: Make, algorithm: str) -> None:
    config = make_config("task=sokoban", f"algorithm={algorithm}", "filter=top_p")
    composed = compose(config, "some/model")
    check(composed)
    actor, ours = composed.actor_rollout_ref.actor, config.algorithm
    assert composed.algorithm.adv_estimator == ours.advantage and composed.critic.enable == (ours.advantage == "gae")
    assert composed.algorithm.norm_adv_by_std_in_grpo == ours.norm_by_std
    assert (actor.clip_ratio_low, actor.clip_ratio_high, actor.clip_ratio_c) == (0.2, 0.28, 3.0)
    assert actor.loss_agg_mode == ours.loss_agg and actor.loss_scale_factor == 5 * 24
    assert actor.entropy_coeff == ours.entropy_coef and actor.use_kl_loss is False
    assert composed.critic.loss_agg_mode == "token-mean" and composed.critic.use_dynamic_bsz is True
    assert composed.data.max_response_length == response_tokens(config) == 5 * 24 + 4 * 400
    assert composed.algorithm.filter_groups.enable is False and composed.trainer.logger == []


def test_the_optimisers_and_the_kl_term(make_config: Make) -> None:
    config = make_config("algorithm=grpo", "algorithm.kl_coef=0.01", "train.lr=0.5", "train.beta2=0.9")
    composed = compose(config, "some/model")
    check(composed)
    actor = composed.actor_rollout_ref.actor
    assert actor.optim.lr == 0.5 and actor.optim.betas == [0.9, 0.9] and actor.optim.lr_scheduler_type == "constant"
    assert actor.use_kl_loss and actor.kl_loss_coef == 0.01 and actor.kl_loss_type == "low_var_kl"


def test_adapters_are_merged_for_the_rollout(make_config: Make) -> None:
    model = compose(make_config("verl.lora_rank=8", "verl.lora_alpha=16"), "some/model").actor_rollout_ref.model
    assert (model.lora_rank, model.lora_alpha, model.lora.merge) == (8, 16, True)
    assert not compose(make_config(), "some/model").actor_rollout_ref.model.lora.merge


def test_settings_of_verls_own_win_and_a_wrong_one_is_named(make_config: Make) -> None:
    config = make_config("verl.overrides=['actor_rollout_ref.rollout.enforce_eager=True']")
    assert compose(config, "some/model").actor_rollout_ref.rollout.enforce_eager is True
    with pytest.raises(SpecError, match="no_such_key") as caught:
        compose(make_config("verl.overrides=['actor_rollout_ref.rollout.no_such_key=1']"), "some/model")
    assert caught.value.where == "verl.overrides"
    with pytest.raises(SpecError) as caught:
        compose(make_config("verl.overrides=['critic.optm.lr=1']"), "some/model")
    assert caught.value.fix == "did you mean 'critic.optim.lr'?"


def test_the_number_of_agent_workers_on_gpus_can_be_set(make_config: Make) -> None:
    gpu = ("device=cuda", "dtype=bfloat16", "verl.rollout=hf")
    assert compose(make_config(*gpu), "some/model").actor_rollout_ref.rollout.agent.num_workers == 8
    fewer = "verl.overrides=['actor_rollout_ref.rollout.agent.num_workers=2']"
    composed = compose(make_config(*gpu, fewer), "some/model")
    check(composed)
    assert composed.actor_rollout_ref.rollout.agent.num_workers == 2


@pytest.mark.parametrize(
    ("compiler", "device", "compiles"), [("gcc", "cuda", True), ("", "cuda", False), ("gcc", "cpu", False)]
)
def test_verl_compiles_only_where_there_is_a_compiler(
    make_config: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiler: str, device: str, compiles: bool
) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: name if name == compiler else None)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: str(tmp_path))
    settings = ("device=cuda", "dtype=bfloat16") if device == "cuda" else ()
    key = "actor_rollout_ref.actor.fsdp_config.use_torch_compile"
    assert overrides_of(make_config(*settings), "some/model")[key] is False, "Python's headers are missing"
    (tmp_path / "Python.h").touch()
    assert overrides_of(make_config(*settings), "some/model")[key] is compiles


def test_what_verl_refuses_is_said_before_anything_runs(make_config: Make) -> None:
    config = make_config("verl.overrides=['actor_rollout_ref.actor.use_dynamic_bsz=False']")
    with pytest.raises(SpecError, match=r"verl refuses this run: .*micro_batch"):
        check(compose(config, "some/model"))
    config = make_config("device=cuda", "dtype=bfloat16", "verl.workers=4", "verl.tensor_parallel=3")
    with pytest.raises(SpecError, match="4 GPUs cannot be shared out"):
        check(compose(config, "some/model"))


@pytest.mark.parametrize(
    "setting",
    [
        "critic.enable=True",
        "actor_rollout_ref.actor.loss_agg_mode=token-mean",
        "trainer.save_freq=5",
        "algorithm.lam=.9",
        "actor_rollout_ref.actor.optim.lr=1",
        "critic.optim.lr=1",
    ],
)
def test_what_plat_decides_is_not_changed_behind_its_back(make_config: Make, setting: str) -> None:
    key = setting.partition("=")[0]
    with pytest.raises(SpecError, match=f"verl.overrides sets {key} to .*, and plat decides"):
        compose(make_config("algorithm=drgrpo", f"verl.overrides=['{setting}']"), "some/model")


def test_agent_workers_read_the_runs_config_back(make_config: Make) -> None:
    config = make_config("task=frozenlake", "task.env={detours: 0.5}", "algorithm=dapo")
    assert run_config(compose(config, "some/model").plat) == config


def test_a_path_with_blanks_and_quotes_stays_what_it_is(make_config: Make) -> None:
    path = "/models/it's, a {path} = with 'all' of [it]"
    assert compose(make_config(), path).actor_rollout_ref.model.path == path


def test_every_setting_is_one_that_verl_has_or_is_marked_as_new(make_config: Make) -> None:
    settings = overrides_of(make_config("algorithm=ppo"), "some/model")
    assert {name for name in settings if name.startswith("+")} == {
        "+actor_rollout_ref.model.override_config.attn_implementation",
        "+critic.model.override_config.attn_implementation",
        "+actor_rollout_ref.actor.fsdp_config.mixed_precision",
        "+critic.fsdp.mixed_precision",
        "+actor_rollout_ref.ref.fsdp_config.mixed_precision",
    }
