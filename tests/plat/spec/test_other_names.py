"""Keys of other code bases are met with the option that is meant."""

from __future__ import annotations

import pytest

from plat.errors import SpecError
from plat.spec.composition.schema import schema_of
from plat.spec.expansion.experiment import build_run
from plat.spec.reading.other_names import OF_THE_CRITIC, OTHER_NAMES, VERLS_OWN, hint
from plat.trainer.verl.settings.verl_config import VerlRunConfig

OPTIONS = schema_of(VerlRunConfig).names()


def test_every_option_that_is_named_exists() -> None:
    assert {*OTHER_NAMES.values(), VERLS_OWN, *OF_THE_CRITIC} <= set(OPTIONS)
    assert not set(OTHER_NAMES) & set(OPTIONS)


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("critic.lr", "did you mean 'train.critic_lr'?"),
        ("critic.optim.lr", "did you mean 'train.critic_lr'?"),
        ("critic.epochs", "options of the critic: train.critic_lr, train.critic_warmup, algorithm.value_clip"),
        ("actor_rollout_ref.actor.optim.lr", "did you mean 'train.lr'?"),
        ("Learning_Rate", "did you mean 'train.lr'?"),
        ("algorithm.kl", "did you mean 'algorithm.kl_coef'?"),
        ("train.epochs", "did you mean 'train.iterations'?"),
    ],
)
def test_the_embedded_trainer_names_its_own_option(key: str, said: str) -> None:
    with pytest.raises(SpecError, match="unknown key") as error:
        build_run([f"{key}=2"])
    assert error.value.fix == said


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("verl.tp", "did you mean 'verl.tensor_parallel'?"),
        ("trainer.n_gpus_per_node", "did you mean 'verl.workers'?"),
        (
            "critic.ppo_epochs",
            """a setting that only verl's own config has is written 'verl.overrides=["critic.ppo_epochs=2"]'""",
        ),
    ],
)
def test_settings_of_verl_have_an_option_or_go_into_its_overrides(key: str, said: str) -> None:
    with pytest.raises(SpecError, match="unknown key") as error:
        build_run(["trainer=verl", f"{key}=2"])
    assert error.value.fix == said


def test_what_nobody_calls_so_has_no_hint() -> None:
    assert hint("critical", 1, OPTIONS) is None and hint("lr", 1, []) is None


def test_values_with_an_equals_sign_are_quoted_in_the_hint() -> None:
    for typed in ("[critic.a=1, b=2]", "['critic.a=1', b=2]"):
        with pytest.raises(SpecError) as error:
            build_run(["trainer=verl", f"verl.overrides={typed}"])
        assert error.value.fix == """quote values that contain =: 'verl.overrides=["critic.a=1","b=2"]'"""
    with pytest.raises(SpecError) as error:
        build_run(["trainer=verl", 'verl.overrides="critic.a=1"'])
    assert error.value.fix == 'write a list: ["critic.a=1"]'
