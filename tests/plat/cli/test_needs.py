"""What an environment needs beside plat is refused or named before a run starts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from plat.errors import SpecError
from plat_envs.api import Need, find_environment
from plat_envs.environment_errors import BadEnvironment

COUNTDOWN = "title: A test\nbase: {task: countdown, scale: smoke}\nmatrix:\n  seed: [0]\n"


@pytest.mark.parametrize("verb", ["plan", "sweep", "run"])
def test_what_the_needs_of_an_environment_refuse_is_refused_before_anything_runs(plat, spec, home, monkeypatch, verb):
    def needs(options):
        raise BadEnvironment("the dataset has no such option", fix="another one")

    changed = replace(find_environment("countdown"), needs=needs)
    monkeypatch.setattr("plat_rl.environments.find_environment", lambda name: changed)
    code, _, err = plat(verb, *(["task=countdown", "scale=smoke"] if verb == "run" else [spec(COUNTDOWN)]))
    assert code == 2 and "the dataset has no such option" in err and "fix: another one" in err
    assert not home.exists()


def test_an_address_that_is_cut_is_refused_at_its_place_with_one_name_of_the_task(plat, spec, home):
    base = "{task: searchqa, scale: smoke, task.env.server: 'http://h:1/?x=1#y'}"
    file = spec(f"title: A test\nbase: {base}\nmatrix:\n  seed: [0]\n")
    code, _, err = plat("plan", file)
    assert code == 2 and err == (
        "error: searchqa: server is 'http://h:1/?x=1#y', with a query and a fragment, which no request carries\n"
        f"   at: {file}:2:55\n  fix: write http://h:1/\n"
    )


@pytest.mark.parametrize("verb", ["sweep", "run"])
def test_what_is_not_there_is_named_before_a_run_starts(plat, spec, home, monkeypatch, verb):
    """It is no refusal: a server may come while the run waits."""
    missing = Need("a server of numbers", "connection refused", "start-server")
    changed = replace(find_environment("countdown"), needs=lambda options: [missing, Need("a file numbers.txt")])
    monkeypatch.setattr("plat_rl.environments.find_environment", lambda name: changed)

    def stop(*arguments, **options):
        raise SpecError("here the runs would start")

    monkeypatch.setattr(f"plat.cli.verbs.{verb}.run_missing", stop)
    code, _, err = plat(verb, *(["task=countdown", "scale=smoke"] if verb == "run" else [spec(COUNTDOWN)]))
    assert code == 2 and err == (
        "warning: a run needs a server of numbers: connection refused\n  fix: start-server\n"
        "error: here the runs would start\n"
    )
