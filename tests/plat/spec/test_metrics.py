"""Which metrics runs log, as their trainers say."""

from __future__ import annotations

import pytest

from plat.errors import SpecError
from plat.spec.expansion.experiment import build_run, check_metric
from plat_rl.metric_names import VERL_METRICS
from plat_rl.verl.update.batches import ACTOR_METRICS, CRITIC_METRICS

EMBEDDED = ("scale=smoke",)
TOY = ("trainer=plat_toy:Toy",)


@pytest.mark.parametrize("name", ["success", "val/success", "grad/q7/task", "probe/level/template", "time/step"])
def test_what_a_trainer_logs_is_accepted(name):
    check_metric(name, [build_run(EMBEDDED)])


@pytest.mark.parametrize(
    ("name", "fix"),
    [
        ("val/sucess", "did you mean 'val/success'"),
        ("entropy", "did you mean 'actor/entropy'"),
        ("mem/kb", "did you mean 'mem/peak_mb'"),
        ("foo", "metrics: success, val/success"),
    ],
)
def test_what_it_does_not_log_is_refused_with_the_nearest_name(name, fix):
    with pytest.raises(SpecError, match=f"no run logs the metric {name!r}") as error:
        check_metric(name, [build_run(EMBEDDED)])
    assert str(error.value.fix).startswith(fix)


def test_a_trainer_that_does_not_say_what_it_logs_may_log_anything():
    check_metric("val/sucess", [build_run(TOY)])
    check_metric("val/sucess", [build_run(EMBEDDED), build_run(TOY)])


def test_what_verl_measures_is_declared():
    assert {*ACTOR_METRICS.values(), *CRITIC_METRICS.values()} <= set(VERL_METRICS)
