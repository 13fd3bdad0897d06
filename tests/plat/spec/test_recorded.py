"""Remembering what a pure function of the config gave, by what it looked at."""

from __future__ import annotations

import copy
import dataclasses
from dataclasses import dataclass, field
from typing import Any

import pytest

from plat.spec.identity.recorded_config import SAME, Recorded


@dataclass
class Model:
    width: int = 8


@dataclass
class Config:
    seed: int = 0
    kind: str = "a"
    model: Model = field(default_factory=Model)

    def double(self) -> int:
        return 2 * self.model.width


def sections(config: Config) -> dict[str, Any]:
    """Objects that stand for the values; equal values share one, as in the resolver."""
    return {name: KEPT.setdefault(repr((name, getattr(config, name))), object()) for name in ("seed", "kind", "model")}


KEPT: dict[str, object] = {}


def calls(function: Any, configs: list[Config]) -> tuple[list[Any], int]:
    """What a recorded function gives for each config, and how often it was really called."""
    count = 0

    def counted(config: Config) -> Any:
        nonlocal count
        count += 1
        return function(config)

    recorded = Recorded(counted)
    results = [recorded(config, sections(config)) for config in configs]
    assert [
        function(config) if result is not SAME else SAME for config, result in zip(configs, results, strict=True)
    ] == (results)
    return results, count


SEEDS = [Config(seed=seed) for seed in range(5)]


@pytest.mark.parametrize(
    "function",
    [
        lambda config: config.model.width,
        lambda config: dataclasses.asdict(config.model),
        lambda config: config.double(),
        lambda config: "constant",
        lambda config: config,
    ],
)
def test_a_function_that_does_not_read_the_seed_is_called_once(function: Any) -> None:
    assert calls(function, SEEDS)[1] == 1


@pytest.mark.parametrize(
    "function",
    [
        lambda config: config.seed,
        lambda config: dataclasses.asdict(config),
        lambda config: dict(vars(config), _plat_read=None)["seed"],
        lambda config: copy.deepcopy(config).seed,
        lambda config: getattr(dataclasses.replace(config, kind="b"), "seed"),  # noqa: B009
    ],
)
def test_a_function_that_reads_the_seed_is_called_for_every_seed(function: Any) -> None:
    assert calls(function, SEEDS)[1] == len(SEEDS)


@pytest.mark.parametrize(
    ("function", "times"),
    [
        (lambda config: config["model"]["width"], 1),
        (lambda config: config.get("kind", "b") + str("model" in config), 1),
        (lambda config: config["seed"], len(SEEDS)),
        (lambda config: "seed" in config, len(SEEDS)),
        (lambda config: {**config}, len(SEEDS)),
        (lambda config: len(config), len(SEEDS)),
        (lambda config: config.get("lacking"), len(SEEDS)),
    ],
)
def test_a_plain_config_is_remembered_by_its_keys(function: Any, times: int) -> None:
    asked: list[Any] = []
    recorded = Recorded(lambda config: (asked.append(1), function(config))[1])
    shared = {"width": 8}
    configs = [{"seed": seed, "kind": "a", "model": shared} for seed in range(len(SEEDS))]
    assert [recorded(config, config) for config in configs] == [function(config) for config in configs]
    assert len(asked) == times


def test_branches_read_different_keys() -> None:
    configs = [Config(seed, kind) for kind in "ab" for seed in range(3)]
    results, count = calls(lambda config: config.seed if config.kind == "a" else -1, configs)
    assert results == [0, 1, 2, -1, -1, -1] and count == 4


def test_errors_are_not_remembered() -> None:
    def fail(config: Config) -> None:
        raise ValueError(config.kind)

    recorded = Recorded(fail)
    for _ in range(2):
        with pytest.raises(ValueError, match="a"):
            recorded(Config(), sections(Config()))


def test_frozen_configs_and_configs_with_slots() -> None:
    @dataclass(frozen=True)
    class Frozen:
        seed: int = 0

    @dataclass(slots=True)
    class Slots:
        seed: int = 0

    for kind in (Frozen, Slots):
        recorded = Recorded(lambda config: config.seed)
        assert [recorded(kind(seed), {"seed": KEPT.setdefault(str(seed), object())}) for seed in (3, 4, 3)] == [3, 4, 3]
