"""Lines that people read: what ten known scripts print, bars, colours, logging, dicts; and what is no metric."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.trainer.script.readers.output import Output
from plat.trainer.script.readers.text import Text

Found = list[tuple[str, int, dict[str, float]]]


def refuse(what: str, where: str, fix: str) -> None:
    raise AssertionError(what)


def read(*lines: str, step: str = "") -> Found:
    reader = Text(step, lambda what, where, fix: None)
    found = [logged for line in lines for logged in reader.read(line, 1.0)]
    return [(logged.counter, logged.step, logged.metrics) for logged in [*found, *reader.end()]]


LINES: dict[str, tuple[list[str], Found]] = {  # the script or library -> lines, and what they say
    "nanoGPT": (
        ["number of parameters: 0.80M", "step 100: train loss 1.234, val loss 1.3", "iter 60: loss 3.1, time 24.20ms"],
        [("step", 100, {"train_loss": 1.234, "val_loss": 1.3}), ("iter", 60, {"loss": 3.1, "time": 24.2})],
    ),
    "bars": (["epoch 3 | acc 0.91"], [("epoch", 3, {"acc": 0.91})]),
    "summary": (["val_bpb:   0.9979"], [("step", 1, {"val_bpb": 0.9979})]),
    "verl": (
        ["step:1 - actor/entropy:0.47 - val-core/x/reward/mean@1:0.5"],
        [("step", 1, {"actor/entropy": 0.47, "val-core/x/reward/mean@1": 0.5})],
    ),
    "verl on Ray": (  # numpy's numbers, a line as long as its metrics, and a bar that follows the last one at once
        [
            "config: {'actor': {'weight_pow': 2.0}}",
            "\x1b[36m(TaskRunner pid=34)\x1b[0m step:3 - a/b:np.float64(-1e-05) - "
            + " - ".join(f"metric/number_{at}:{at}.5" for at in range(400))
            + " - timing_s/total:2\x1b[36m(TaskRunner pid=34)\x1b[0m Training:   0%|          | 1/200",
            "test_gen_batch meta info: loss 3.5",
        ],
        [("step", 3, {"a/b": -1e-5, **{f"metric/number_{at}": at + 0.5 for at in range(400)}, "timing_s/total": 2.0})],
    ),
    "Hugging Face": (
        ["{'loss': '6.545', 'grad_norm': '1.009', 'epoch': 0.1}", "{'eval_loss': 5.0, 'epoch': 1.0}"],
        [("step", 1, {"loss": 6.545, "grad_norm": 1.009, "epoch": 0.1}), ("step", 2, {"eval_loss": 5.0, "epoch": 1.0})],
    ),
    "numpy": (
        ["INFO {'step': 3, 'loss': np.float64(0.5), 'x': tensor(0.25, device='cuda:0'), 'n': np.int64(2)}"],
        [("step", 3, {"loss": 0.5, "x": 0.25, "n": 2.0})],
    ),
    "Keras": (
        ["Epoch 1/5", "10/10 [====] - 1s 5ms/step - loss: 0.5 - accuracy: 0.8", "Epoch 2/5", "9/10 - loss: 1e-3"],
        [("Epoch".lower(), 1, {"loss": 0.5, "accuracy": 0.8}), ("epoch", 2, {"loss": 1e-3})],
    ),
    "Keras 3": (
        ["Epoch 1/5", "\x1b[1m10/10\x1b[0m \x1b[32m━━━\x1b[0m\x1b[37m\x1b[0m \x1b[1m1s\x1b[0m 5ms/step - loss: 0.4"],
        [("epoch", 1, {"loss": 0.4})],
    ),
    "Stable-Baselines3": (
        [
            "-" * 35,
            "| rollout/           |         |",
            "|    ep_rew_mean     | 1.2e+03 |",
            "| time/              |         |",
            "|    iterations      | 2       |",
            "|    total_timesteps | 4096    |",
            "| train/             |         |",
            "|    loss            | -0.05   |",
            "| lr                 | 0.0003  |",
            "-" * 35,
        ],
        [("step", 4096, {"rollout/ep_rew_mean": 1200.0, "time/iterations": 2.0, "train/loss": -0.05, "lr": 0.0003})],
    ),
    "Spinning Up": (
        ["-" * 20, "|    Epoch |    3 |", "| AverageEpRet |  20.5 |", "-" * 20],
        [("epoch", 3, {"AverageEpRet": 20.5})],
    ),
    "Keras on a pipe": (
        ["Epoch 1/2", "32/96 [==>...] - ETA: 7s - loss: 0.9\b\b\b\b", "96/96 [===] - 1s 5ms/step - loss: 0.5"],
        [("epoch", 1, {"loss": 0.9}), ("epoch", 1, {"loss": 0.5})],
    ),
    "Lightning": (
        ["Epoch 0: 100%|███| 10/10 [00:01<00:00, 9.5it/s, train_loss=0.500]"],
        [("epoch", 0, {"train_loss": 0.5})],
    ),
    "logging": (
        ["2026-01-01 12:00:00 INFO step 5 loss 0.3", "[2026-01-01 12:00:00,123][__main__][INFO] - step 6: loss 0.5"],
        [("step", 5, {"loss": 0.3}), ("step", 6, {"loss": 0.5})],
    ),
    "logging's own": (["INFO:root:step 7 loss: 0.2"], [("step", 7, {"loss": 0.2})]),
    "MNIST": (
        ["Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.300039", "Test set: Average loss: 0.05, Accuracy: 9800/10000 (98%)"],
        [("epoch", 1, {"Loss": 2.300039})],
    ),
    "word_language_model": (
        ["| epoch   1 |   200/ 2983 batches | lr 20.00 | ms/batch 12.3 | loss  7.63 | ppl  2059.17"],
        [("epoch", 1, {"lr": 20.0, "ms/batch": 12.3, "loss": 7.63, "ppl": 2059.17})],
    ),
    "makemore": (
        ["step 100 train loss: 2.4 test loss: 2.5"],
        [("step", 100, {"train_loss": 2.4, "test_loss": 2.5})],
    ),
    "reinforce": (["Episode 10\tLast reward: 10.00"], [("episode", 10, {"Last_reward": 10.0})]),
    "tutorial": (["Epoch [1/5], Step [100/600], Loss: 2.1"], [("step", 100, {"Epoch": 1.0, "Loss": 2.1})]),
}


@pytest.mark.parametrize("name", LINES)
def test_what_known_scripts_print(name: str) -> None:
    lines, found = LINES[name]
    assert read(*lines) == found


def test_no_number_is_read_wrongly() -> None:
    assert read("step 3 loss 1,020.5, acc 1,2, x 5k, y 3M, share 9800/10000") == [("step", 3, {"loss": 1020.5})]
    ((_, _, values),) = read("step 4: loss nan, lr 1e-5, gain -inf")
    assert math.isnan(values["loss"]) and values["lr"] == 1e-5 and values["gain"] == -math.inf


def test_lines_without_a_step_are_no_metrics_if_others_have_one() -> None:
    lines = ["lr: 0.1", "Namespace(lr=0.1, seed=3)", "loss 7, acc 8", "step 1: loss 1", "saved 3 files, took 5 s"]
    assert read(*lines) == [("step", 1, {"loss": 1.0})]
    assert read("step 1: loss 1", "best_acc: 0.5") == [("step", 1, {"loss": 1.0}), ("step", 1, {"best_acc": 0.5})]


def test_the_exact_name_of_the_step_wins_and_of_several_the_first() -> None:
    best = {"loss": 0.8, "best": 0.4, "at_step": 20.0}
    assert read("step 40 loss 0.8 (best 0.4 at step 20)") == [("step", 40, best)]
    assert read("Epoch 2 | loss 0.8 | best_epoch 1") == [("epoch", 2, {"loss": 0.8, "best_epoch": 1.0})]
    assert read("epoch 2 loss 0.8 (best 0.4 at step 20)") == [("epoch", 2, best)]
    assert read("step 40, loss 0.8, step 20") == [("step", 40, {"loss": 0.8})]
    assert read("Train_Epoch: 3 | loss 0.8") == [("epoch", 3, {"loss": 0.8})]


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["epoch 1 lr 0.1", "Test set: loss: 0.05, (98%)", "val acc 3 of 4"], ["'Test set: loss: 0.05, (98%)'"]),
        (["acc: 0.1", "epoch 1 lr 0.1"], ["'acc: 0.1'"]),
        (["acc: 0.1", "acc: 0.2", "gloss 1 x", "lossless 4 files", "loss: mse, lr 0.1"], []),
    ],
)  # fmt: skip
def test_a_line_with_a_metric_and_no_step_is_quoted_once(lines: list[str], says: list[str]) -> None:
    notes: list[str] = []
    reader = Text("", lambda what, where, fix: notes.append(f"{what}; {fix}"))
    assert sum(len(list(reader.read(line))) for line in lines) + len(list(reader.end())) > 0
    what, fix = (
        "a line with a metric has no step and is left out",
        "print the step in each such line, or use script.patterns",
    )
    assert notes == [f"{what}: {line}; {fix}" for line in says]


def test_several_objects_on_one_line() -> None:
    assert read('x {"step": 1, "a": 1} {"step": 2, "a": 2}') == [("step", 1, {"a": 1.0}), ("step", 2, {"a": 2.0})]


def test_the_word_of_the_step_can_be_chosen() -> None:
    assert read("epoch 2 step 5 loss 1", step="epoch") == [("epoch", 2, {"step": 5.0, "loss": 1.0})]


@given(st.text(max_size=300), st.text(alphabet="ab1 ,.:=-/[](){}'\x1b\r|", max_size=300))
def test_any_line_is_read_or_is_no_metric(first: str, second: str) -> None:
    reader = Text("", lambda what, where, fix: None)
    for line in (first, second):
        assert all(logged.step >= 0 and logged.metrics for logged in reader.read(line))


@given(st.integers(0, 10**6), st.floats(allow_nan=False, allow_infinity=False), st.floats(0, 1))
def test_printed_numbers_are_read_exactly(step: int, loss: float, acc: float) -> None:
    expected = [("step", step, {"train_loss": loss, "acc": acc})]
    assert read(f"step {step}: train loss {loss!r}, acc {acc!r}") == expected
    assert read(f"step={step} | train loss={loss!r} | acc: {acc!r}") == expected


def test_patterns_of_the_user_are_read_first() -> None:
    patterns = ["it {step} :: {train_loss} / {val.loss}", "score {{x}} = {score}"]
    output = Output("", refuse, patterns=patterns)
    lines = [b"it 5 ::  1.5 /\t-2e-1", b"score {x} = 1,000.5", b'{"step": 6, "a": 1}', b"it 7 :: x / 3"]
    found = [logged for line in lines for logged in output.read(line, 1.0)]
    assert [(logged.step, logged.metrics) for logged in [*found, *output.end()]] == [
        (5, {"train_loss": 1.5, "val.loss": -0.2}),
        (5, {"score": 1000.5}),
        (6, {"a": 1.0}),
    ]


def test_colours_and_bars_before_an_object_do_not_hide_it() -> None:
    output = Output("", refuse)
    lines = [(b'\x1b[32m{"step": 1, "a": 1}\x1b[0m', False), (b' 50%|## | 1/2{"step": 2, "a": 2}', True)]
    lines += [(b'note {"step": 3, "a": 3}', False)]
    found = [logged for line, is_bar in lines for logged in output.read(line, 1.0, is_bar)]
    assert [logged.metrics["a"] for logged in found] == [1.0, 2.0]


@pytest.mark.parametrize(
    "last", ["{'acc': 0.06, 'loss': 0.8}", "1563/1563 ━━━━ 2s 1ms/step - acc: 0.06 - loss: 0.8"], ids=["dict", "bar"]
)
def test_an_evaluation_after_the_training_is_no_last_step(last: str) -> None:
    lines = [part for epoch in (1, 2) for part in (f"Epoch {epoch}/2", f"10/10 ━━━━ 1s 4ms/step - loss: 0.{epoch}")]
    assert read(*lines, last) == [("epoch", 1, {"loss": 0.1}), ("epoch", 2, {"loss": 0.2})]
    told: list[str] = []
    reader = Text("", lambda what, where, fix: told.append(what))
    assert [[*reader.read(line)] for line in (*lines, last)] and [*reader.end()] == []
    assert len(told) == 1 and last[:10] in told[0]


def test_arguments_before_a_table_are_no_metrics() -> None:
    assert read("Seed: 0", "batch_size: 8", "| rollout/ | |", "|    ep_rew_mean | 10.5 |") == []


def test_rounds_of_boosting_are_steps() -> None:
    lines = ["[0]\tdtrain-rmse:0.82\tdtest-rmse:0.84", "[1]\tvalid_0's l2: 0.198\tvalid_0's l1: 0.43"]
    assert read(*lines) == [
        ("iteration", 0, {"dtrain-rmse": 0.82, "dtest-rmse": 0.84}),
        ("iteration", 1, {"valid_0_l2": 0.198, "valid_0_l1": 0.43}),
    ]


def test_a_name_may_end_with_a_digit() -> None:
    assert read("epoch 3: f1: 0.5, top5: 0.9") == [("epoch", 3, {"f1": 0.5, "top5": 0.9})]


def test_a_line_that_is_too_long_is_said():
    said = []
    reader = Text("", lambda what, where, fix: said.append(what))
    list(reader.read("step 1: loss 0.5, " + "x, " * 2000 + "accuracy: 0.25", 1.0))
    assert said == [found for found in said if "is read up to 4,096" in found] and said


def test_a_bar_right_behind_the_last_pair_and_a_line_that_only_looks_alike():
    found = read("step:1 - a/x:0.5 - perf/tp:123.4Training Progress:  10%|# | 1/10 [00:01<00:09]")
    assert found == [("step", 1, {"a/x": 0.5, "perf/tp": 123.4})]
    lines = ["epoch 1 loss 0.9", "epoch 3 eval step:3 - acc:0.5", "epoch 4 loss 0.7"]
    assert {("epoch", 1), ("epoch", 4)} <= {(counter, step) for counter, step, _ in read(*lines)}


def test_lines_beside_those_with_dashes_are_read():
    found = read("step:5 - loss:0.3 - acc:0.5", "step 6: val_acc 0.9")
    assert found == [("step", 5, {"loss": 0.3, "acc": 0.5}), ("step", 6, {"val_acc": 0.9})]


def test_a_line_of_many_nans_is_read_at_once():
    """Its time doubled with every two words, which stopped a sweep."""
    assert read("epoch 1 loss 0.5", "nan " * 60 + "x", "values: [" + "nan " * 60 + "0.5]")[0] == (
        "epoch",
        1,
        {"loss": 0.5},
    )
