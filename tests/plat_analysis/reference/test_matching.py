"""Which recorded runs may stand beside a run: equal in all that an id is made of, but for seed and build."""

from __future__ import annotations

import pytest

from plat.spec.identity.run_identity import SCHEME
from plat_analysis.reference.reference_runs import Origin, difference, differing_settings

IDENTITY = {"trainer": "embedded", "plugins": [["task.name", "1"]], "left_out": ["threads"]}
FINGERPRINT = {"base": {"sha256": "aa"}, "environment": "1"}
CONFIG = {"seed": 0, "threads": 1, "eval": {"seed": 5}, "model": {"name": "m", "base": {"seed": 0, "steps": 9}}}


def origin(config=CONFIG, **changes):
    meta = {
        "trainer": "embedded",
        "trainer_version": "3.0",
        "identity_scheme": SCHEME,
        "identity": IDENTITY,
        "fingerprint": FINGERPRINT,
    }
    return Origin.of_record(meta | changes, config)


def with_seeds(seed, build):
    return CONFIG | {"seed": seed, "model": {"name": "m", "base": {"seed": build, "steps": 9}}}


def test_seed_build_and_operational_keys_make_no_difference():
    other = origin(with_seeds(7, 1) | {"threads": 8}, fingerprint=FINGERPRINT | {"base": {"sha256": "bb"}})
    assert other.settings == origin().settings and difference(origin(), other) == ""
    assert differing_settings(origin(), other) == []


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (CONFIG | {"eval": {"seed": 6}}, ["eval.seed 6, not 5"]),
        (CONFIG | {"lr": 0.1}, ["lr 0.1, not unset"]),
        (CONFIG | {"model": {"name": "m", "base": {"seed": 0, "steps": 8}}}, ["model.base.steps 8, not 9"]),
    ],
)
def test_every_other_setting_does_and_is_named(config, named):
    assert origin(config).settings != origin().settings
    assert differing_settings(origin(), origin(config)) == named


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trainer_version": "2.0"}, "trainer embedded 2.0, not embedded 3.0"),
        ({"identity_scheme": 1}, f"identity scheme 1, not {SCHEME}"),
        ({"identity": IDENTITY | {"plugins": [["task.name", "2"]]}}, "plug-ins"),
        ({"fingerprint": FINGERPRINT | {"environment": "2"}}, "different content of `environment`"),
        ({"fingerprint": FINGERPRINT | {"base": {"sha256": "bb"}}}, "different content of `base model`"),
    ],
)
def test_what_an_id_is_made_of_is_compared(changes, said):
    assert said in difference(origin(), origin(**changes))
