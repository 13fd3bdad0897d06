"""What the embedded trainer does when memory ran out: micro-batches shrink, and the run stays the same one."""

from __future__ import annotations

from plat.spec.expansion.experiment import build_run, config_object
from plat_rl.embedded.spec import EmbeddedTrainer

OVERRIDES = ["task=sokoban", "train.prompts=4", "train.group_size=4", "train.mini_batches=2"]


def test_micro_batches_are_halved_down_to_one_trajectory() -> None:
    trainer = EmbeddedTrainer()
    config = config_object(build_run(OVERRIDES), trainer)
    sizes = []
    while (smaller := trainer.less_memory(config)) is not None:
        assert smaller.train.mini_batches == config.train.mini_batches
        config = smaller
        sizes.append(config.train.micro_batch)
    assert sizes == [4, 2, 1]


def test_a_smaller_micro_batch_is_the_same_run() -> None:
    assert build_run([*OVERRIDES, "train.micro_batch=2"]).id == build_run(OVERRIDES).id
