"""Run directories of the toy trainer, for tests of the runner."""

import json

from toy_runs import comparable, toy_run

from plat.runner.execution import execute
from plat.store.home import Home
from plat.store.provenance.code_state import CodeState
from plat.store.run_directory.creation import create


def make(home, **options):
    return create(home, toy_run(**options), "a", code=CodeState())


def outcome_of(paths, number=1):
    return json.loads(paths.attempt(number).outcome.read_text())


def undisturbed(tmp_path, **options):
    """What the same run gives without any damage."""
    other = Home(tmp_path / "undisturbed").create()
    execute(other, make(other, **options).id)
    return comparable(other.run(toy_run(**options).id))
