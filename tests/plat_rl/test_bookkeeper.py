"""The book-keeper: the rules of a run, the same for a trainer that owns its loop and for one called by hooks."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from plat.errors import RunError
from plat.trainer.api import State
from plat_rl.loop.bookkeeper import Bookkeeper
from plat_rl.loop.trainable import Measured
from plat_rl.rl.early_stop import EarlyStops

quick = settings(max_examples=60, deadline=None)


class Scripted:
    """A trainer whose policy is the number of its updates, and whose success at each step is written down."""

    def __init__(self, config, io, successes):
        self.config, self.successes, self.updates = config, successes, 0
        self.book = Bookkeeper(config, io, self)

    # what the book-keeper asks for
    def validate(self):
        return self._measured(self.updates)

    def evaluate_heldout(self, peak):
        return self._measured(self.updates if peak is None else int(peak.tensors["updates"]))

    def probe(self, step, with_null):
        null = {"probe/retrieval_untrained": 0.125} if with_null else {}
        return Measured({"probe/retrieval_acc": 1 / (1 + self.updates), **null}, {"updates": self.updates})

    def state(self):
        return State({"updates": torch.tensor(self.updates)}, {"own": self.updates})

    def restore(self, step, state):
        assert state.meta == {"own": step}
        self.updates = int(state.tensors["updates"])

    def _measured(self, updates):
        return Measured({"success": self.successes[updates], "turns": 2.0}, {"success": [updates]})

    def iterate(self, step):
        returns = np.array([[step, 0.0], [1 / 3, 1.0]])
        self.book.rolled_out(returns, {"rollout/reward_var": float(returns.var())})
        if self.book.measures_mutual_information:
            self.book.add({"mi/first_turn/h_z": float(step)})
        self.updates += 1
        self.book.add({"actor/loss": 1.0 / step})

    def run(self):
        self.book.start()
        while not self.book.is_over:
            self.iterate(self.book.begin_iteration())
            self.book.end_iteration(empty=False)
        return self.book.finish({"parameters": 1})


class ByHooks(Scripted):
    """The same trainer below a library that owns the loop and its own step counter."""

    def run(self):
        self.book.start()
        Library(self, first=self.book.progress.step + 1).fit()
        return self.book.finish({"parameters": 1})

    def on_step_begin(self, step):
        assert self.book.begin_iteration() == step

    def on_step_end(self):
        self.book.end_iteration(empty=False)
        return self.book.is_over


class Library:
    def __init__(self, trainer, first):
        self.trainer, self.step = trainer, first

    def fit(self):
        is_over = self.trainer.book.is_over
        while not is_over:
            self.trainer.on_step_begin(self.step)
            self.trainer.iterate(self.step)
            is_over = self.trainer.on_step_end()
            self.step += 1


@st.composite
def plans(draw):
    """A config and the success of every step."""
    iterations = draw(st.integers(0, 9))
    config = SimpleNamespace(
        train=SimpleNamespace(iterations=iterations, checkpoint_every=draw(st.integers(1, 5))),
        eval=SimpleNamespace(every=draw(st.integers(1, 5)), heldout=draw(st.sampled_from([0, 8]))),
        mi=SimpleNamespace(
            every=draw(st.integers(0, 4)), probe=draw(st.sampled_from([0, 8])), probe_every=draw(st.integers(1, 3)),
            ema_alpha=0.9,
        ),
        early_stop=SimpleNamespace(
            variance_fraction=0.1, variance_baseline=2, variance_window=0, success_floor=0.2, empty_window=0,
            success_window=draw(st.integers(0, 3)),
        ),
    )  # fmt: skip
    return config, draw(st.lists(st.sampled_from([0.1, 0.3, 0.5]), min_size=iterations + 1, max_size=iterations + 1))


@quick
@given(plan=plans())
def test_the_rules_of_a_run(plan, memory_io):
    """Against the rules as `bookkeeper` states them, in the words of this test."""
    config, successes = plan
    io = memory_io()
    outcome = Scripted(config, io, successes).run()
    last = max(step for _, step in io.metrics)
    stops = EarlyStops(config.early_stop)
    stopped_at = next((s for s in evaluated(config, last) if stops.evaluation(successes[s])), None)
    assert outcome.kind == ("finished" if stopped_at is None else "stopped:low_success")
    assert last == (config.train.iterations if stopped_at is None else stopped_at)

    steps = {name: [step for key, step in io.metrics if key == name] for name, _ in io.metrics}
    assert steps["val/success"] == evaluated(config, last)
    assert steps.get("actor/loss", []) == list(range(1, last + 1))
    assert steps.get("mi/first_turn/h_z", []) == [
        s for s in range(1, last + 1) if config.mi.every and (s == 1 or s % config.mi.every == 0)
    ]
    every = config.eval.every * config.mi.probe_every
    probed = [s for s in range(last + 1) if config.mi.probe and (s % every == 0 or s == last)]
    assert steps.get("probe/retrieval_acc", []) == probed
    assert steps.get("probe/retrieval_untrained", []) == probed[:1]

    peak = max(evaluated(config, last), key=lambda s: successes[s])  # the earliest of equal ones
    assert outcome.summary == {"parameters": 1, "peak_step": peak, "peak_success": successes[peak]}
    if config.eval.heldout:
        assert io.metrics["heldout/base_success", 0] == successes[0]
        assert io.metrics["heldout/success", last] == successes[peak]
        assert io.metrics["heldout/final_success", last] == successes[last]
        roles = {role: io.tables[f"heldout_{role}", last] for role in ("peak", "final")}
        assert [roles[role]["success"] for role in roles] == [[peak], [last]]
        assert all(table["role"] == role and table["peak_step"] == peak for role, table in roles.items())
    else:
        assert not any(key.startswith("heldout/") for key, _ in io.metrics)

    risen, best = [], -1.0
    for step in evaluated(config, last):
        if successes[step] > best:
            risen, best = [*risen, step], successes[step]
    rhythm = {s for s in range(1, last + 1) if s % config.train.checkpoint_every == 0}
    assert sorted(io.checkpoints) == sorted({0, last, *risen, *rhythm})
    assert [step for step, (_, is_peak) in sorted(io.checkpoints.items()) if is_peak] == risen


def evaluated(config, last):
    return [s for s in range(last + 1) if s % config.eval.every == 0 or s == config.train.iterations]


@quick
@given(plan=plans(), stop_at=st.sets(st.integers(1, 9)))
def test_hooks_and_interruptions_leave_no_trace(plan, stop_at, memory_io):
    """A library that owns the loop, interrupted and resumed at any steps, gives what an undisturbed loop gives."""
    config, successes = plan
    whole, io = memory_io(), memory_io(*stop_at)
    expected = Scripted(config, whole, successes).run()
    while (outcome := ByHooks(config, io, successes).run()).kind == "interrupted":
        assert outcome.summary == {} and max(io.checkpoints) == io.step in stop_at
        io = io.resumed(io.stop_at - {io.step})
    assert outcome == expected and io.tables == whole.tables and io.history() == whole.history()
    assert {step: is_peak for step, (_, is_peak) in whole.checkpoints.items()}.items() <= {
        step: is_peak for step, (_, is_peak) in io.checkpoints.items()
    }.items()


def test_the_order_of_events(compose, memory_io):
    """What is logged of a step comes in the order in which it is made, and everything of a step before its save."""
    config = compose("train.iterations=1", "eval.every=1", "mi.every=1", "mi.probe=8")
    io, events = memory_io(), []
    for name in ("log", "table", "save"):
        method = getattr(io, name)

        def record(*arguments, name=name, method=method, **more):
            events.append((name, *(argument for argument in arguments if isinstance(argument, str | int))))
            return method(*arguments, **more)

        setattr(io, name, record)
    trainer = Scripted(config, io, [0.1, 0.2])
    trainer.run()
    assert events == [
        ("table", "probe", 0), ("table", "val_instances", 0), ("table", "heldout_base", 0), ("log", 0), ("save", 0),
        ("table", "reward_matrix", 1), ("table", "val_instances", 1), ("table", "probe", 1), ("log", 1), ("save", 1),
        ("table", "heldout_peak", 1), ("table", "heldout_final", 1), ("log", 1),
    ]  # fmt: skip
    keys = [key for key, step in io.metrics if step == 1 and not key.startswith("time/")]
    assert keys[:3] == ["rollout/reward_var", "mi/first_turn/h_z", "actor/loss"]
    assert keys[3:7] == ["val/success", "val/turns", "probe/retrieval_acc", "mem/peak_mb"]
    assert io.tables["reward_matrix", 1] == [[1.0, 0.0], [0.333333, 1.0]]


def test_a_loop_that_ends_too_early_is_a_mistake(compose, memory_io):
    """A library may run out of data; that must not pass for a finished run."""
    trainer = Scripted(compose("train.iterations=3"), memory_io(), [0.1] * 4)
    trainer.book.start()
    trainer.iterate(trainer.book.begin_iteration())
    trainer.book.end_iteration(empty=False)
    with pytest.raises(RunError, match="after 1 of 3 iterations") as error:
        trainer.book.finish({})
    assert error.value.fix


def test_success_that_is_not_a_number_fails_the_run(compose, memory_io):
    with pytest.raises(RunError, match="not a number") as error:
        Scripted(compose("train.iterations=1", "eval.every=1"), memory_io(), [0.1, math.nan]).run()
    assert error.value.failure_class == "nan"


def test_empty_batches_end_a_run(compose, memory_io):
    config = compose("train.iterations=9", "early_stop.empty_window=2", "eval.every=5")
    io = memory_io()
    trainer = Scripted(config, io, [0.5] * 10)
    trainer.book.start()
    while not trainer.book.is_over:
        trainer.iterate(trainer.book.begin_iteration())
        trainer.book.end_iteration(empty=True)
    assert trainer.book.finish({}).kind == "stopped:empty_batches" and trainer.book.progress.step == 2
    assert ("val/success", 2) in io.metrics, "the policy at an early stop is evaluated"


def test_files_are_written_with_every_checkpoint(compose, memory_io):
    """What `write_files` writes reaches RunIO.save, and the restored folder reaches the trainer."""
    io, saved, restored = memory_io(), [], []
    save = io.save

    def save_with_files(step, state, *, peak=False, write_files=None):
        saved.append((step, write_files))
        save(step, state, peak=peak)

    io.save = save_with_files
    trainer = Scripted(compose("train.iterations=1", "eval.every=1"), io, [0.1, 0.2])
    trainer.book.write_files = print
    trainer.run()
    assert saved == [(0, print), (1, print)]
    io.restore = lambda: (1, State(io.checkpoints[1][0].tensors, io.checkpoints[1][0].meta, "folder"))
    again = Scripted(compose("train.iterations=1", "eval.every=1"), io, [0.1, 0.2])
    again.restore = lambda step, state: restored.append((step, state.files))
    again.book.start()
    assert restored == [(1, "folder")]
