"""Compose verl's whole config for a run with Hydra, and check it with verl's own config classes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from plat.errors import SpecError
from plat.suggest import suggest
from plat_rl.loop.check_task import check_task
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.settings.verl_overrides import decided_by_plat, overrides_of

MODEL = "any/model"  # the checks do not depend on the checkpoint, which may not be on this machine
_CHECKED: set[str] = set()  # settings that were accepted in this process


def check_config(config: VerlRunConfig) -> None:
    """Raise SpecError if verl rejects this run's settings, or its task has too few problems to evaluate.

    Settings that differ in the seed and the model alone are composed once.
    """
    check_task(config)
    settings = {name: value for name, value in overrides_of(config, MODEL).items() if not name.endswith(".seed")}
    key = json.dumps([settings, config.verl.overrides])
    if key not in _CHECKED:
        check(compose(config, MODEL))
        _CHECKED.add(key)


def compose(config: VerlRunConfig, model: str) -> Any:
    """Return verl's config for a run: an OmegaConf DictConfig with one more key, `plat`, the run's own config as JSON.

    model   folder or hub name of the checkpoint

    Raises SpecError if verl's config has no such key, or if `verl.overrides` changes a setting that plat decides.
    """
    from hydra import compose as hydra_compose
    from hydra import initialize_config_module
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import open_dict
    from omegaconf.errors import OmegaConfBaseException

    settings = [f"{key}={_written(value)}" for key, value in overrides_of(config, model).items()]

    def merged(overrides: list[str]) -> Any:
        with initialize_config_module("verl.trainer.config", version_base=None):
            return hydra_compose("ppo_trainer", overrides=[*settings, *overrides])

    state = GlobalHydra.instance()
    before = state.hydra
    state.clear()
    try:
        composed = merged(config.verl.overrides)
    except (HydraException, OmegaConfBaseException) as error:
        raise SpecError(
            f"verl's config does not take these settings: {' '.join(str(error).split())[:300]}",
            where="verl.overrides",
            fix=_nearest_key(str(error), merged) or "see verl's ppo_trainer.yaml for its keys",
        ) from error
    finally:
        state.hydra = before
    _refuse_ours(config, composed)
    with open_dict(composed):
        composed.plat = json.dumps(asdict(config))
    return composed


def _nearest_key(message: str, merged: Callable[[list[str]], Any]) -> str:
    """Return a suggestion for a key that Hydra did not find; "" if the message is about another problem."""
    from omegaconf import OmegaConf

    unknown = re.search(r"Could not override '([^']+)'", message)
    if unknown is None:
        return ""
    return suggest(unknown[1], _keys(OmegaConf.to_container(merged([]))), "keys of verl")


def _keys(values: Any, section: str = "") -> list[str]:
    if not isinstance(values, Mapping):
        return [section.removesuffix(".")]
    return [key for name, inner in values.items() for key in _keys(inner, f"{section}{name}.")]


def _refuse_ours(config: VerlRunConfig, composed: Any) -> None:
    """Raise SpecError if `verl.overrides` changes a setting that plat decides."""
    from omegaconf import OmegaConf

    for key, value in decided_by_plat(config).items():
        changed = OmegaConf.select(composed, key.lstrip("+"))
        if changed != value:
            raise SpecError(
                f"verl.overrides sets {key} to {changed}, and plat decides that it is {value}",
                where="verl.overrides",
                fix="choose algorithm= and its options (`plat options algorithm --trainer verl`), train.lr or "
                "train.critic_lr; or leave it out",
            )


def run_config(text: str) -> VerlRunConfig:
    """Return the run's own config from verl's key `plat`."""
    from omegaconf import OmegaConf

    values = OmegaConf.merge(OmegaConf.structured(VerlRunConfig), json.loads(text))
    config = OmegaConf.to_object(values)
    assert isinstance(config, VerlRunConfig)
    return config


def _written(value: Any) -> str:
    """Return a value in the grammar of Hydra's command line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return "'" + value.replace("'", "\\'") + "'"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{name}:{_written(inner)}" for name, inner in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return repr(value)


def check(composed: Any) -> None:
    """Build verl's config objects from a composed config and run verl's checks. Raises SpecError if one fails.

    Needs neither a GPU nor vllm nor the model's weights: parts that read a checkpoint are skipped.
    """
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from verl.utils.config import omega_conf_to_dataclass

    gpus = composed.trainer.n_gpus_per_node * composed.trainer.nnodes
    batch = composed.data.train_batch_size
    try:
        actor = omega_conf_to_dataclass(composed.actor_rollout_ref.actor)
        actor.validate(gpus, batch, composed.actor_rollout_ref.model)
        rollout = omega_conf_to_dataclass(composed.actor_rollout_ref.rollout)
        omega_conf_to_dataclass(composed.algorithm)
        if composed.critic.enable:
            critic = OmegaConf.to_container(composed.critic, resolve=True)
            assert isinstance(critic, dict)
            # The dataclass of the model would read the checkpoint.
            others = OmegaConf.create({name: value for name, value in critic.items() if name != "model"})
            omega_conf_to_dataclass(others).validate(gpus, batch)
        shared = rollout.tensor_model_parallel_size * rollout.data_parallel_size * rollout.pipeline_model_parallel_size
        if gpus % shared:
            raise ValueError(f"{gpus} GPUs cannot be shared out among copies of the rollout's model of {shared} each")
    except (HydraException, OmegaConfBaseException, ValueError, TypeError, AssertionError) as error:
        cause = error.__cause__ or error
        raise SpecError(
            f"verl refuses this run: {' '.join(str(cause).split())[:300]}", where="verl", fix="change what it names"
        ) from error
