"""Which runs a sweep has to do; done ones are fixed whatever has become of their files."""

from __future__ import annotations

import pytest
from toy_runs import toy_run

from plat.dispatch.admission import Admission
from plat.errors import SpecError
from plat.spec.expansion.experiment import Experiment
from plat.store.disk.durable import to_checked_json, write
from plat.store.run_directory.creation import create
from plat.store.run_directory.run_files import config_hash, load_meta, read_config

RUNS = [toy_run(seed=seed) for seed in range(4)]
RESULT = {"outcome": "finished", "step": 6, "success": 0.5, "time": 1.7e9, "attempt": 1, "attempts": [1]}


@pytest.fixture
def done(home):
    """A home in which the first three runs are done."""
    for run in RUNS[:3]:
        write(create(home, run, "first").result, to_checked_json({"id": run.id, **RESULT}))
    judged(home)
    return home


def judged(home, name="first"):
    """The states of the runs, as a sweep of a file with this name finds them."""
    file = Experiment(name, home.root / name, name, "paper1", None, [], [], {}, RUNS, {}, "toy")
    return [end.state for end in Admission(home, [file], []).judge(RUNS)]


def remove_config(paths):
    paths.config.unlink()


def edit_config(paths):
    paths.config.write_text(paths.config.read_text().replace("seed: 1", "seed: 7"))


def empty_config(paths):
    """As a power cut leaves it: the result was written after it."""
    paths.config.write_text("")
    paths.result.write_bytes(paths.result.read_bytes())


def remove_meta(paths):
    paths.meta.unlink()


def damage_meta(paths):
    paths.meta.write_text(paths.meta.read_text()[:-20])


@pytest.mark.parametrize("harm", [remove_config, edit_config, empty_config, remove_meta, damage_meta])
def test_the_directory_of_a_done_run_is_mended(done, harm):
    paths = done.run(RUNS[1].id)
    config = read_config(paths)
    harm(paths)
    assert judged(done) == ["done"] * 3 + ["missing"]
    assert read_config(paths) == config and load_meta(paths)["experiments"] == ["first"]


def test_another_file_that_asks_for_a_done_run_is_noted(done):
    for _ in range(2):
        assert judged(done, "second") == ["done"] * 3 + ["missing"]
        assert [load_meta(done.run(run.id))["experiments"] for run in RUNS[:3]] == [["first", "second"]] * 3


def test_a_result_that_is_gone_makes_the_run_missing(done):
    done.run(RUNS[0].id).result.unlink()
    assert judged(done)[:2] == ["missing", "done"]


def test_two_configs_that_share_an_id_are_noticed(done):
    paths = done.run(RUNS[2].id)
    paths.config.write_text("seed: 99\n")
    write(paths.meta, to_checked_json(load_meta(paths) | {"config_sha256": config_hash({"seed": 99})}))
    paths.result.write_bytes(paths.result.read_bytes())
    with pytest.raises(SpecError, match="two configs share the id"):
        judged(done)
