"""What of the logged metrics becomes the history: the last value of a step, own steps of each metric, exact resumes."""

from __future__ import annotations

from typing import Any

import pytest

from plat.errors import RunError
from plat.trainer.script.readers.objects import Logged
from plat.trainer.script.recorder import Recorder


class Events:
    """A RunIO that keeps events as a run's history counts them."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int], float] = {}
        self.step = -1

    def log(self, step: int, metrics: dict[str, float], *, late: bool = False) -> None:
        assert late or step >= self.step
        self.step = max(self.step, step)
        for name, value in metrics.items():
            assert (name, step) not in self.values
            self.values[name, step] = value


def recorder(io: Any, restored: int | None = None, kept: Any = None) -> Recorder:
    return Recorder(io, restored, kept)


def test_the_last_value_of_a_step_counts_and_replaced_ones_are_counted() -> None:
    io = Events()
    record = recorder(io)
    for step, value in ((100, 10.0), (100, 20.0), (100, 30.0), (100, 30.0), (200, 1.0)):
        record.add(Logged(step, {"return": value}, 0.0))
    record.log()
    assert io.values == {("return", 100): 30.0}
    record.finish()
    assert io.values == {("return", 100): 30.0, ("return", 200): 1.0}
    assert record.notes == ["values that a later one of the same step replaced: return (2)"]


def test_each_metric_has_its_own_steps_and_only_one_that_falls_is_refused() -> None:
    io = Events()
    record = recorder(io)
    for step in range(1, 21):
        record.add(Logged(step, {"loss": 1 / step}, 0.0))
        if step % 10 == 0:
            record.add(Logged(step // 10, {"val": 1 / step}, 0.0, "epoch"))
    record.add(Logged(0, {"test/acc": 0.5}, 0.0, "test/acc"))
    record.finish()
    assert io.values[("val", 1)] == 0.1 and io.values[("val", 2)] == 0.05 and io.values[("test/acc", 0)] == 0.5
    assert len(io.values) == 23 and record.step == 20
    again = recorder(Events())
    again.add(Logged(2, {"loss": 1.0}, 0.0))
    again.add(Logged(1, {"loss": 1.0}, 0.0, "epoch"))
    with pytest.raises(
        RunError, match="logged step 1 after step 2 of loss, which it logs by step and by epoch"
    ) as error:
        again.log()
    assert "one process and one run of a logger write a metric" in str(error.value.fix)


def test_a_checkpoint_keeps_what_waits_so_that_a_resume_is_exact() -> None:
    lines = [Logged(step, {"loss": value}, 0.0) for step, value in ((1, 5.0), (2, 6.0), (2, 7.0), (3, 8.0), (3, 9.0))]
    lines += [Logged(1, {"val": 1.0}, 0.0, "epoch"), Logged(4, {"loss": 10.0}, 0.0), Logged(1, {"val": 2.0}, 0.0)]
    whole = Events()
    undisturbed = recorder(whole)
    for line in lines:
        undisturbed.add(line)
    undisturbed.finish()
    for cut in range(len(lines) + 1):
        io = Events()
        first = recorder(io)
        for line in lines[:cut]:
            first.add(line)
        first.log()
        if first.step is None:
            continue
        kept, covered = first.kept(), dict(io.values)
        second = recorder(io, first.step, kept)
        for line in lines[cut:]:
            second.add(line)
        second.finish()
        assert io.values == whole.values and io.values.items() >= covered.items()


def test_a_checkpoint_of_before_has_one_step_for_all_metrics() -> None:
    io = Events()
    record = recorder(io, 3, {})
    for step in range(1, 6):
        record.add(Logged(step, {"loss": float(step)}, 0.0))
    record.finish()
    assert io.values == {("loss", 4): 4.0, ("loss", 5): 5.0}


def test_a_file_that_is_read_again_adds_what_was_missing_and_contradictions_are_said() -> None:
    io = Events()
    record = recorder(io)
    for step in (1, 5):
        record.add(Logged(step, {"loss": float(step)}, 0.0))
    record.add(Logged(3, {"loss": 3.0}, 0.0, look="found"))
    record.add(Logged(1, {"loss": 9.0}, 0.0, look="changed"))
    record.add(Logged(5, {"loss": 6.0}, 0.0, look="changed"))
    record.finish()
    assert io.values == {("loss", 1): 1.0, ("loss", 3): 3.0, ("loss", 5): 6.0}
    assert record.notes == ["loss at step 1 was shown with another value later (9); the first one is kept"]
