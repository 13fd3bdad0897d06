"""The laws of identity, each as a property."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, make_dataclass
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from trainers import Bare, like

from plat.errors import SpecError
from plat.spec.composition.schema import schema_of
from plat.spec.expansion.experiment import Experiment, build_run, same_results
from plat.spec.identity import run_identity
from plat.trainer import finding
from plat_rl.run_config import RunConfig

Load = Callable[..., Experiment]
FEW = settings(max_examples=25, deadline=None)

# result-affecting overrides and two different values of each
CHANGES: dict[str, tuple[Any, Any]] = {
    "seed": (1, 2),
    "task": ("sokoban", "countdown"),
    "task.response_tokens": (12, 13),
    "task.env.format_penalty": (-0.1, -0.2),
    "algorithm": ("grpo", "drgrpo"),
    "algorithm.entropy_coef": (0.0, 1e-9),
    "model": ("qwen2.5-0.5b", "llama3.2-3b"),
    "model.base.steps": (10, 11),
    "filter": ("none", "top_p"),
    "train.max_grad_norm": (0.9, 0.9000001),
    "train.lr": (1e-3, 2e-3),
    "train.iterations": (7, 8),
    "eval.seed": (5, 6),
    "mi.every": (0, 1),
    "early_stop.variance_window": (5, 10),
    "device": ("cpu", "cuda"),
    "dtype": ("float32", "float64"),
    "threads": (1, 2),
}
overrides = st.dictionaries(st.sampled_from(sorted(CHANGES)), st.integers(0, 1), max_size=6).map(
    lambda picked: {key: CHANGES[key][index] for key, index in picked.items()}
)


def ids(experiment: Experiment) -> list[str]:
    return [run.id for run in experiment.runs]


def text_of(base: dict[str, Any], matrix: dict[str, Any] | None = None) -> str:
    matrix = matrix or ({} if "seed" in base else {"seed": [0]})
    return yaml.safe_dump({"title": "t", "base": base, "matrix": matrix}, sort_keys=False)


def nested(flat: dict[str, Any]) -> dict[str, Any]:
    """The same overrides as nested mappings, except groups, which must stay scalars."""
    result: dict[str, Any] = {}
    groups = {key for key in flat if "." not in key}
    for key, value in flat.items():
        head, _, tail = key.partition(".")
        if tail and head not in groups:
            result.setdefault(head, {})[tail] = value
        else:
            result[key] = value
    return result


@given(overrides, st.randoms(use_true_random=False))
@FEW
def test_key_order_comments_and_nesting(load: Load, base: dict[str, Any], rng: random.Random) -> None:
    items = list(base.items())
    rng.shuffle(items)
    shuffled = "# a comment\n" + text_of(dict(items)).replace("base:", "base:  # another\n ", 1)
    if not base:
        shuffled = "# a comment\n" + text_of({})
    assert ids(load(text_of(base))) == ids(load(shuffled)) == ids(load(text_of(nested(base))))


@given(overrides)
@FEW
def test_anchors(load: Load, base: dict[str, Any]) -> None:
    variant = {key: value for key, value in base.items() if key != "seed"}
    written = text_of({}, {"variant": {"A": variant}, "seed": [0]})
    inner = yaml.safe_dump(variant, default_flow_style=True, width=10_000).strip()
    anchored = f"title: t\nbase: &b {inner}\nmatrix: {{variant: {{A: *b}}, seed: [0]}}\n"
    merged = f"title: t\nbase: &b {inner}\nmatrix: {{variant: {{A: {{<<: *b}}}}, seed: [0]}}\n"
    assert ids(load(written)) == ids(load(anchored)) == ids(load(merged))


@given(st.permutations(["task", "filter", "seed", "train.lr"]))
@FEW
def test_axis_order(load: Load, order: list[str]) -> None:
    axes = {"task": ["sokoban", "frozenlake"], "filter": ["none", "top_p"], "seed": [0, 1], "train.lr": [1e-3, 1e-2]}
    expected = ids(load(text_of({}, axes)))
    assert sorted(ids(load(text_of({}, {name: axes[name] for name in order})))) == sorted(expected)


@given(st.floats(min_value=1e-12, max_value=1e6))
@settings(max_examples=60, deadline=None)
def test_float_spelling(number: float) -> None:
    spellings = {repr(number), f"{number:.17g}", f"{number:.20e}", f"'{number!r}'", f"+{number!r}"}
    assert len({build_run([f"train.lr={text}"]).id for text in spellings}) == 1


def test_float_spellings_in_files(load: Load) -> None:
    spellings = ["1e-3", "0.001", "1.0e-3", "1E-03", ".001", "0.0010", "'1e-3'"]
    assert len({ids(load(f"title: t\nbase: {{train.lr: {text}}}"))[0] for text in spellings}) == 1
    assert len({ids(load(f"title: t\nbase: {{filter.value: {text}}}"))[0] for text in ("1", "1.0", "1e0")}) == 1
    assert len({ids(load(f"title: t\nbase: {{algorithm.kl_coef: {text}}}"))[0] for text in ("0", "0.0", "-0.0")}) == 1


@given(overrides, st.sampled_from(sorted(CHANGES)))
@settings(max_examples=60, deadline=None)
def test_any_result_affecting_change_changes_the_id(base: dict[str, Any], key: str) -> None:
    made = []
    for value in CHANGES[key]:
        chosen = {**base, key: value}
        made.append(build_run([f"{name}={given}" for name, given in chosen.items()]))
    assert made[0].id != made[1].id and made[0].name != made[1].name
    assert not same_results(*made)


@pytest.mark.parametrize(("key", "values"), [("train.micro_batch", (0, 4)), ("model.paper_name", ("a", "b"))])
def test_operational_keys_do_not(key: str, values: tuple[Any, Any]) -> None:
    made = [build_run([f"{key}={value}"]) for value in values]
    assert made[0].id == made[1].id and made[0].config != made[1].config
    assert same_results(*made)


def test_every_key_of_the_built_in_config_counts_unless_it_is_operational() -> None:
    """Perturb each value of the resolved config by hand: only operational keys may leave the hash alone."""
    from plat_rl.embedded.spec import EmbeddedTrainer

    left_out = EmbeddedTrainer.operational_keys, EmbeddedTrainer.legacy

    config = build_run([]).config
    for key in schema_of(RunConfig).leaves:
        kept, _ = run_identity.result_affecting(key, "perturbed", *left_out)
        assert kept != any(key == name or key.startswith(name + ".") for name in left_out[0])
    assert run_identity.result_affecting("", config, *left_out)[0]


# --- laws about changes of the code: trainers of a test -------------------------------------------------------------


@dataclass
class Probe:
    every: int = 0
    size: int = 8


def config_type(**defaults: Any) -> type:
    """ToyConfig with these fields and defaults."""
    specs = [
        (name, type(value), field(default_factory=type(value)) if isinstance(value, Probe) else field(default=value))
        for name, value in {"trainer": "toy", "seed": 0, **defaults}.items()
    ]
    return make_dataclass("ToyConfig", specs)


def toy_id(trainer: Callable[..., Any], kind: type, *given: str, **options: Any) -> str:
    trainer(kind, **options)
    return build_run(["trainer=toy", *given]).id


def test_a_changed_default_changes_the_id(trainer: Callable[..., Any]) -> None:
    assert toy_id(trainer, config_type(lr=0.1)) != toy_id(trainer, config_type(lr=0.2))
    assert toy_id(trainer, config_type(lr=0.1), "lr=0.2") == toy_id(trainer, config_type(lr=0.2))


@given(st.sampled_from([("new", 5, 6), ("new", 0.5, 0.25), ("new", "old way", "new way"), ("new", False, True)]))
@settings(max_examples=10, deadline=None)
def test_a_new_option_at_its_legacy_value_changes_nothing(option: tuple[str, Any, Any]) -> None:
    name, legacy, other = option
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        published: dict[str, Any] = {}
        context.setattr(finding, "find_trainer", lambda *_: published["toy"])

        def publish(kind: type, **options: Any) -> None:
            published["toy"] = like(Bare, config_type=kind, **options)()

        before = toy_id(publish, config_type(lr=0.1))
        assert toy_id(publish, config_type(lr=0.1, **{name: legacy}), legacy={name: legacy}) == before
        assert toy_id(publish, config_type(lr=0.1, **{name: other}), legacy={name: legacy}) != before
        back = toy_id(publish, config_type(lr=0.1, **{name: other}), f"{name}='{legacy}'", legacy={name: legacy})
        assert back == before, "legacy is a value, not the default"
        assert toy_id(publish, config_type(lr=0.1, **{name: legacy})) != before, "without a legacy value it counts"


def test_a_new_section_at_its_legacy_values_changes_nothing(trainer: Callable[..., Any]) -> None:
    before = toy_id(trainer, config_type(lr=0.1))
    kind = config_type(lr=0.1, probe=Probe())
    legacy = {"probe.every": 0, "probe.size": 8}
    assert toy_id(trainer, kind, legacy=legacy) == before
    assert toy_id(trainer, kind, "probe.every=1", legacy=legacy) != before


def test_trainer_version_name_and_fingerprint_count(trainer: Callable[..., Any]) -> None:
    kind = config_type(lr=0.1)
    facts = [
        toy_id(trainer, kind),
        toy_id(trainer, kind, version="2"),
        toy_id(trainer, kind, fingerprint=lambda config: {"base": "abc"}),
        toy_id(trainer, kind, fingerprint=lambda config: {"base": "abd"}),
    ]
    trainer(kind, "other")
    facts.append(build_run(["trainer=other", "lr=0.1"]).id)
    assert len(set(facts)) == 5


def test_a_prefix_of_operational_keys_leaves_out_all_below(trainer: Callable[..., Any]) -> None:
    kind = config_type(probe=Probe())
    assert toy_id(trainer, kind, "probe.every=3", operational_keys=("probe",)) == toy_id(trainer, config_type())
    kept = toy_id(trainer, kind, "probe.every=3", operational_keys=("prob", "probe.ever"))
    assert kept != toy_id(trainer, config_type()), "a part of a name is not a prefix"


def test_a_shared_id_of_different_configs_is_refused(load: Load, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("plat.spec.composition.resolver.identity", lambda fragments, facts: "0" * 16)
    with pytest.raises(SpecError, match="share the id"):
        load("title: t\nmatrix: {seed: [0, 1]}")


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(_json, _json)
@settings(max_examples=150, deadline=None)
def test_canonical_json_is_equal_exactly_for_equal_values(value: Any, other: Any) -> None:
    assert (run_identity.canonical(value) == run_identity.canonical(other)) == (
        repr(value) == repr(other) or _same(value, other)
    )


def _same(value: Any, other: Any) -> bool:
    """Equality that tells 1, 1.0 and True apart, and does not see the order of keys."""
    if type(value) is not type(other):
        return False
    if isinstance(value, dict):
        return value.keys() == other.keys() and all(_same(value[key], other[key]) for key in value)
    if isinstance(value, list):
        return len(value) == len(other) and all(map(_same, value, other))
    return repr(value) == repr(other)


@given(st.lists(st.text(max_size=20), max_size=6))
def test_names_use_safe_characters(parts: list[str]) -> None:
    name = run_identity.readable(parts)
    assert name and set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-") and name[0] not in "-."


def test_names_show_the_axes_that_vary(load: Load) -> None:
    base = {"task": "sokoban", "algorithm": "grpo", "filter": "top_p", "train.lr": 1e-3}
    axes = {"filter.value": [0.8, 0.9], "algorithm.norm_by_std": [True, False], "task.env.size": [6], "seed": [0, 1]}
    names = {run.name.rpartition("-")[0] for run in load(text_of(base, axes)).runs}
    sides = [
        f"value{rate}-norm_by_std-{switch}-s{seed}"
        for switch in ("true", "false")
        for rate in (0.8, 0.9)
        for seed in (0, 1)
    ]
    assert names == set(sides)


def test_the_seed_of_a_base_model_is_not_taken_for_the_runs(load: Load) -> None:
    runs = load(text_of({}, {"model.base.seed": [0, 1], "seed": [2]})).runs
    assert [run.name.rpartition("-")[0] for run in runs] == ["base.seed0-s2", "base.seed1-s2"]


def test_a_name_is_the_same_when_the_command_line_chooses_one_value(load: Load) -> None:
    text = text_of({"task": "sokoban", "filter": "top_p"}, {"filter.value": [0.8, 0.9], "seed": [0]})
    names = {run.id: run.name for run in load(text).runs}
    (chosen,) = load(text, "filter.value=0.9").runs
    assert names[chosen.id] == chosen.name and chosen.name.startswith("value0.9-s0-")


def test_names_have_the_axes_that_vary_and_stay_short(load: Load) -> None:
    variants = {"PPO": {}, "Dr. GRPO": {"algorithm": "drgrpo"}, "w" * 90: {"algorithm": "grpo"}}
    axes = {"variant": variants, "task": ["sokoban", "frozenlake"], "seed": [0]}
    names = [run.name.rpartition("-")[0] for run in load(text_of({}, axes)).runs]
    assert names[:5:2] == ["ppo-sokoban-s0", "dr.-grpo-sokoban-s0", "sokoban-s0"]
    assert (
        load(text_of({}, {"task": ["sokoban"], "seed": [0, 1]}))
        .runs[1]
        .name.startswith("sokoban-ppo-qwen2.5-3b-none-s1-")
    )


def test_names_are_readable() -> None:
    run = build_run(["task=sokoban", "algorithm=grpo", "filter=top_p", "seed=3"])
    assert run.name == f"sokoban-grpo-qwen2.5-3b-top_p-s3-{run.id[:8]}" and len(run.id) == 16
