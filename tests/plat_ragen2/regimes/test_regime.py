"""Regimes from simulated probes: no collapse without a fall, and three words for three things."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plat.errors import SpecError
from plat_analysis.data.results import Results
from plat_ragen2.regimes.probe_tables import Behaviour, Probe, early_probes, probes
from plat_ragen2.regimes.regime import (
    COLLAPSED,
    COMPRESSED,
    DIVERSE,
    FELL_LOW,
    LOW_ENTROPY,
    NEVER,
    NO_REASONING,
    NOISE,
    NOT_FLUENT,
    STOPPED_MOVING,
    TEMPLATE,
    UNDECIDED,
    UNKNOWN,
    Thresholds,
    fell,
    regime,
)

LOG_V = math.log(37)
DEFAULT = Thresholds()
SEARCHED = Thresholds(high=0.7)
rates = st.floats(0, 1)


def probe(rng, retrieval, fluent=0.98, entropy=1.4, blocks=64, spread=0.0, step=0):
    """A probe of a policy with these rates; `spread` between blocks (blocks of hard and of easy prompts)."""
    of_block = np.clip(retrieval + spread * rng.standard_normal(blocks), 0, 1)
    return Probe(
        step,
        8,
        rng.binomial(8, of_block, blocks) / 8,
        rng.binomial(8, fluent, blocks) / 8,
        entropy + 0.1 * rng.standard_normal(blocks),
    )


def behaviour(rng, moves, success=0.3, instances=256, step=0):
    """Moves per turn between 0 and 5, as of policies that may make five actions a turn."""
    return Behaviour(
        step,
        (rng.random(instances) < success).astype(float),
        rng.binomial(5, moves / 5, (instances, 4)).mean(axis=1),
    )


def judge(rng, early=0.8, final=0.125, moves=(2.0, 2.0), success=(0.3, 0.3), limits=DEFAULT, **final_probe):
    return regime(
        [probe(rng, level, step=step) for step, level in enumerate(early if isinstance(early, tuple) else (early,))],
        probe(rng, final, **final_probe),
        behaviour(rng, moves[0], success[0]),
        behaviour(rng, moves[1], success[1]),
        LOG_V,
        limits,
    )


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.mark.parametrize(
    "case, name",
    [
        ({}, TEMPLATE),
        ({"final": 0.75}, DIVERSE),
        ({"final": 0.75, "entropy": 0.3}, COMPRESSED),
        ({"final": 0.4}, DIVERSE),  # it fell, but not to chance
        ({"entropy": 0.3}, LOW_ENTROPY),
        ({"final": 0.75, "fluent": 0.0}, DIVERSE + NOT_FLUENT),  # it depends on the prompt, and is no language
        ({"final": 0.75, "fluent": 0.6, "entropy": 0.3}, COMPRESSED + NOT_FLUENT),
        ({"early": 0.17}, NEVER),  # within the null
        ({"early": (0.13, 0.17)}, NEVER),
        ({"early": 0.5, "limits": SEARCHED}, FELL_LOW),  # a search asked for .7
        ({"early": (0.5, 0.95), "limits": SEARCHED}, TEMPLATE),
        ({"fluent": 0.6}, NOISE),
        ({"entropy": 3.0}, NOISE),
        ({"fluent": 0.0, "entropy": 0.1}, LOW_ENTROPY),  # one word, whatever the prompt
        ({"fluent": 0.0, "entropy": 0.1, "moves": (2.0, 0.2)}, STOPPED_MOVING),
        ({"moves": (2.0, 0.2)}, STOPPED_MOVING),
        ({"moves": (2.0, 0.0), "success": (0.3, 0.02)}, STOPPED_MOVING),
        ({"moves": (2.0, 0.6), "success": (0.3, 0.7)}, TEMPLATE),  # fewer moves that succeed more often are skill
        ({"moves": (2.0, 1.0)}, STOPPED_MOVING),
        ({"moves": (2.0, 1.6)}, UNDECIDED),  # about the limit: neither lost nor kept
        ({"early": 0.125}, NEVER),
        ({"early": 0.26, "final": 0.2}, UNDECIDED),
        ({"early": (0.3, 0.8, 0.4)}, TEMPLATE),  # the fall is from a level that was learned first
        ({"early": (0.125, 0.8)}, TEMPLATE),
        ({"early": (0.13, 0.3), "final": 0.2}, NEVER),  # near chance at the start, and no fall is shown
        ({"early": (0.3, 0.13)}, TEMPLATE),  # that a later one is near chance does not hide the start
    ],
)
def test_the_words(rng, case, name):
    verdict = judge(rng, **case)
    assert verdict.name == name, verdict


@pytest.mark.parametrize("missing", range(4))
def test_what_was_not_measured_is_unknown_with_the_reason(rng, missing):
    measured = [[probe(rng, 0.8)], probe(rng, 0.125), behaviour(rng, 2), behaviour(rng, 2)]
    measured[missing] = [] if missing == 0 else None
    verdict = regime(*measured, LOG_V)
    assert verdict.name == UNKNOWN and ("probed" if missing < 2 else "moves") in verdict.reason
    few = regime([probe(rng, 0.8, blocks=8)], probe(rng, 0.125), behaviour(rng, 2), behaviour(rng, 2), LOG_V)
    assert few.name == UNKNOWN and "64 reasonings were probed, 512 are needed" in few.reason
    assert regime([probe(rng, 0.8)], probe(rng, 0.125), behaviour(rng, 2), behaviour(rng, 2), None).name == UNKNOWN


def test_a_policy_that_says_nothing_has_no_reasoning(rng):
    silent = Probe(9, 8, np.full(64, 1 / 8), np.zeros(64), np.full(64, np.nan))
    verdict = regime([probe(rng, 0.8)], silent, behaviour(rng, 2), behaviour(rng, 2), LOG_V)
    assert str(verdict) == "no reasoning"


def test_one_word_for_every_prompt_is_low_entropy_and_says_that_it_is_no_sentence(rng):
    assert str(judge(rng, fluent=0.02, entropy=0.1)) == "low-entropy collapse: 2 % parse"
    assert str(judge(rng, entropy=0.1)) == "low-entropy collapse"


@pytest.mark.parametrize(("silent", "name"), [(1, TEMPLATE), (32, TEMPLATE), (33, NO_REASONING), (63, NO_REASONING)])
def test_most_blocks_have_to_have_a_reasoning(rng, make_experiment, make_frames, silent, name):
    """A trainer logs null for the H(Z|X) of a block none of whose responses has any reasoning."""
    experiment = make_experiment(rows=("GRPO",), tasks=("sokoban",), filters=("none",))
    frames = make_frames(experiment)
    rows = frames.tables["name"] == "probe"
    last = frames.tables.loc[rows, "data"].iloc[-1]
    last["h_z_given_x"] = [None] * silent + [1.5] * (64 - silent)
    run = Results(frames, experiment).runs[0]
    recorded = probes(Results(frames, experiment), run)
    assert recorded[-1].mean_entropy == (1.5 if name == TEMPLATE else None)
    moves = behaviour(rng, 2)
    assert regime(early_probes(recorded), recorded[-1], moves, moves, LOG_V).name == name


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), rates, rates, st.floats(0, 3.6), st.floats(0, 0.3), st.floats(0, 5), st.integers(1, 9))
def test_a_policy_that_did_not_change_is_never_called_collapsed(seed, retrieval, fluent, entropy, spread, moves, count):
    rng = np.random.default_rng(seed)
    same = {"retrieval": retrieval, "fluent": fluent, "entropy": entropy, "spread": spread}
    early = [probe(rng, **same) for _ in range(count)]
    verdict = regime(early, probe(rng, **same), behaviour(rng, moves), behaviour(rng, moves), LOG_V)
    assert verdict.name not in COLLAPSED


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), rates, rates, st.floats(0.5, 5), st.floats(0, 0.6), rates)
def test_a_policy_that_stops_moving_is_never_called_a_template(seed, early, final, moves, left, fluent):
    rng = np.random.default_rng(seed)
    verdict = judge(rng, early=early, final=final, moves=(moves, left * moves), success=(0.3, 0.1), fluent=fluent)
    assert verdict.name not in (TEMPLATE, LOW_ENTROPY)


def test_an_unchanged_policy_is_not_called_collapsed_in_very_many_draws(rng):
    wrong = 0
    for _ in range(2000):
        level = rng.uniform(0.1, 0.5)
        wrong += judge(rng, early=(level,) * 5, final=level).name in COLLAPSED
    assert wrong == 0


def test_a_start_within_the_null_did_not_fall_whichever_early_probe_is_the_highest(rng):
    """At a level at which errors can be counted: 5 % over all candidates together, at the edge of the null itself."""
    limits = Thresholds(fall=0.0, level=0.95)
    wrong = sum(fell([probe(rng, 0.225) for _ in range(5)], probe(rng, 0.125), limits) for _ in range(2000))
    assert 0.01 < wrong / 2000 < 0.05 + 3 * math.sqrt(0.05 * 0.95 / 2000)


def test_an_end_at_the_edge_of_the_null_is_seldom_called_chance(rng):
    wrong = sum(fell([probe(rng, 0.9)], probe(rng, 0.225, spread=0.1), DEFAULT) for _ in range(2000))
    assert wrong / 2000 < 0.025 + 3 * math.sqrt(0.025 * 0.975 / 2000)


def test_blocks_that_differ_do_not_hide_a_fall(rng):
    fallen = sum(fell([probe(rng, 0.9)], probe(rng, 0.15, spread=0.1), DEFAULT) for _ in range(200))
    assert fallen / 200 > 0.8


def test_a_real_collapse_is_recognised(rng):
    names = [judge(rng, early=rng.uniform(0.45, 1.0), final=0.125).name for _ in range(200)]
    assert names.count(TEMPLATE) >= 198


def test_which_probes_are_early_is_fixed_beforehand(rng):
    def early_steps(*steps):
        return [item.step for item in early_probes([probe(rng, 0.8, step=step) for step in steps])]

    assert early_steps(0, 10, 20, 30) == [0, 10]
    assert early_steps(0, 10, 20, 30, 40) == [0, 10, 20]
    assert early_steps(0, 30) == [0], "the last one is never early"
    assert early_steps(0) == [0] and early_steps() == []


def test_thresholds_are_options_and_are_printed(rng):
    assert judge(rng, entropy=3.0, limits=Thresholds(noise=0.9)).name == TEMPLATE
    text = str(Thresholds())
    assert all(word in text for word in (*COLLAPSED, DIVERSE, COMPRESSED, NEVER, UNDECIDED, UNKNOWN.capitalize()))
    assert all(number in text for number in ("0.05", "512", "0.6 ln V", "90 %", "99.9 %", "98.5 %", "chance + 0.1"))
    assert FELL_LOW not in text and f"{FELL_LOW} if no such evaluation is shown to be above 0.7" in str(SEARCHED)
    assert Thresholds.read({"fall": 0.2}).fall == 0.2 and Thresholds.read(None) == Thresholds()
    with pytest.raises(SpecError, match="there is no 'fal'") as error:
        Thresholds.read({"fal": 0.2})
    assert "'fall'" in error.value.fix
