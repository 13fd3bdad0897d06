"""What runs of scripts record, whatever they log into: the history, the notes, and the advice if nothing was read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from memory_io import MemoryIo

from plat.errors import RunError, SpecError
from plat.spec.expansion.experiment import load_experiment
from plat.store.home import Home
from plat.store.run_directory.history import run_history
from plat.store.run_directory.run_files import read_result
from plat.trainer.api import Outcome
from plat.trainer.script import train
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig
from plat.trainer.script.spec import ScriptTrainer

Values = dict[str, dict[int, float]]
Run = Callable[..., tuple[Values, Outcome]]


def values_of(logged: list[tuple[int, dict[str, float]]]) -> Values:
    found: Values = {}
    for step, metrics in logged:
        for name, value in metrics.items():
            assert step not in found.setdefault(name, {}), "a run records each value once"
            found[name][step] = value
    return found


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run the text of a script in a folder, and return what was recorded, and the outcome."""

    def train_it(text: str, **options: Any) -> tuple[Values, Outcome]:
        (tmp_path / "mine.py").write_text(f"import json, os, sys, time\n{text}")
        io: Any = MemoryIo(tmp_path / "files")
        config = ScriptRunConfig(script=ScriptConfig(command="python mine.py", folder=str(tmp_path), **options))
        outcome = train.train(ScriptTrainer().validate(config), io)
        return values_of(io.logged), outcome

    return train_it


def test_a_csv_file_that_is_overwritten_at_each_step(run: Run) -> None:
    text = """path = os.path.join(os.environ["PLAT_RUN_DIR"], "metrics.csv")
for s in range(1, 6):
    open(path, "w").write(f"step,loss\\n{s},{1 / s:.4f}\\n"); time.sleep(.3)"""
    assert run(text, metrics="metrics.csv")[0] == {"loss": {1: 1.0, 2: 0.5, 3: 0.3333, 4: 0.25, 5: 0.2}}


def test_a_file_that_is_written_anew_and_shorter_fails_the_run(run: Run) -> None:
    text = """path = os.path.join(os.environ["PLAT_RUN_DIR"], "metrics.csv")
for value, last in ((9.0, 5), (1.0, 3)):
    open(path, "w").write("step,loss\\n" + "".join(f"{s},{value}\\n" for s in range(1, last + 1))); time.sleep(.5)"""
    with pytest.raises(RunError, match="loss ends at step 3, and ended at step 5 before") as error:
        run(text, metrics="metrics.csv")
    assert str(error.value.where).endswith("metrics.csv") and "append to the file" in str(error.value.fix)
    with pytest.raises(RunError, match="exit code 4"):
        run(text + "\nsys.exit(4)", metrics="metrics.csv")


@pytest.mark.parametrize("first", [0, 3])
def test_two_files_of_a_pattern_with_the_same_metric_fail_the_run(run: Run, first: int) -> None:
    text = f"""for version, start in ((0, 0), (1, {first})):
    folder = os.path.join(os.environ["PLAT_RUN_DIR"], "lightning_logs", f"version_{{version}}")
    os.makedirs(folder)
    rows = "".join(f"{{start + step}},1,{{version + step}}\\n" for step in range(3))
    open(os.path.join(folder, "metrics.csv"), "w").write("step,epoch,loss\\n" + rows); time.sleep(.3)"""
    with pytest.raises(RunError, match=r"the metric loss: .*version_0/metrics.csv and .*version_1/metrics.csv"):
        run(text, metrics="lightning_logs/*/metrics.csv")


def test_steps_that_begin_anew_in_each_epoch(run: Run) -> None:
    text = """for epoch in (1, 2):
    for step in (100, 200): print(f"Epoch [{epoch}/2], Step [{step}/200], Loss: {epoch + step / 1000}")"""
    with pytest.raises(RunError, match="step 100 after step 200") as error:
        run(text, metrics="text")
    assert error.value.fix == "steps begin anew in each Epoch: script.step: epoch"
    assert run(text, metrics="text", step="epoch")[0]["Loss"] == {1: 1.2, 2: 2.2}


def test_a_csv_file_that_gets_columns_and_a_column_that_is_no_number(run: Run) -> None:
    text = """path = os.path.join(os.environ["PLAT_RUN_DIR"], "metrics.csv")
for text in ("step,train,r\\n1,2.5,1\\n", "acc,step,train,r\\n,1,2.5,1\\n0.5,2,2.25,12%\\n"):
    open(path, "w").write(text); time.sleep(.3)"""
    found, outcome = run(text, metrics="metrics.csv")
    assert found["train"] == {1: 2.5, 2: 2.25} and found["acc"] == {2: 0.5} and found["r"][1] == 1.0
    assert "metrics.csv:3: the column r has numbers, and here '12%'" in outcome.summary["notes"]


def test_several_values_of_a_step(run: Run) -> None:
    text = """for step in (100, 200):
    for ret in (10.0, 20.0, 30.0): print(json.dumps({"global_step": step, "ret": ret}))"""
    found, outcome = run(text)
    assert found == {"ret": {100: 30.0, 200: 30.0}}
    assert outcome.summary == {"notes": "values that a later one of the same step replaced: ret (4)"}


def test_steps_and_epochs_in_one_run(run: Run) -> None:
    text = """print(json.dumps({"lr": 0.1, "seed": 3}))
print(json.dumps({"step": "init", "params": 3}))
for step in range(0, 21):
    print(json.dumps({"step": step, "loss": 1.0, "time": 9e12}))
    if step and step % 10 == 0: print(json.dumps({"epoch": step // 10, "val": 2.0}))
print(json.dumps({"best": 1}))"""
    found, outcome = run(text)
    assert found["loss"] == dict.fromkeys(range(21), 1.0) and found["val"] == {1: 2.0, 2: 2.0}
    assert sorted(found) == ["loss", "time", "val"]
    notes = outcome.summary["notes"]
    assert "(lr, seed)" in notes and "step is 'init'" in notes and "(best)" in notes


def test_text_bars_and_patterns(run: Run) -> None:
    text = """for epoch in (1, 2):
    print(f"Epoch {epoch}/2")
    for batch in (1, 2, 3):
        sys.stdout.write(f"\\r{batch}/3 [=>] - 1s 5ms/step - loss: {batch / epoch}"); sys.stdout.flush()
        time.sleep(.05)
    print(f" - val_loss: {epoch}")"""
    found, outcome = run(text, metrics="text")
    assert found == {"loss": {1: 3.0, 2: 1.5}, "val_loss": {1: 1.0, 2: 2.0}} and outcome.summary == {}
    text = "for i in (1, 2): print(f'it {i} -> {i / 2} / {i}')\nprint(json.dumps({'step': 3, 'a': 1}))"
    found, _ = run(text, patterns=["it {step} -> {loss} /"])
    assert found == {"loss": {1: 0.5, 2: 1.0}, "a": {3: 1.0}}


def test_colours_and_returns_do_not_hide_json(run: Run) -> None:
    text = """for s in (1, 2): print("\\x1b[32m" + json.dumps({"step": s, "train": {"loss": s}}) + "\\x1b[0m")
for s in (3, 4): print(json.dumps({"step": s, "train": {"loss": s}}), end="\\r")"""
    assert run(text)[0] == {"train.loss": {step: float(step) for step in (1, 2, 3, 4)}}


def test_several_sources_at_once(run: Run) -> None:
    text = """from torch.utils.tensorboard import SummaryWriter
import plat
out = os.environ["PLAT_RUN_DIR"]
with SummaryWriter(out) as writer:
    for s in (1, 2): writer.add_scalar("events", s, s); print(f"step {s}: text {s}")
    writer.add_scalar("test", 5, 0)
os.makedirs(out + "/v0"); open(out + "/v0/metrics.csv", "w").write("step,rows\\n1,1\\n2,2\\n")
plat.log(7, called=1)"""
    found, _ = run(text, metrics=["tensorboard", "text", "*/metrics.csv"])
    pair = {1: 1.0, 2: 2.0}
    assert found == {"events": pair, "text": pair, "rows": pair, "test": {0: 5.0}, "called": {7: 1.0}}


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_the_clients_of_wandb_and_trackio_log_into_the_run(run: Run, name: str) -> None:
    pytest.importorskip(name)
    text = f"""import {name}
{name}.init(project="mine", config={{"lr": 0.1}})
for s in range(3): {name}.log({{"loss": 1 / (s + 1)}})
{name}.finish()"""
    found, _ = run(text, metrics=name)
    assert found == {"loss": {0: 1.0, 1: 0.5, 2: 1 / 3}}


FILE = "open(os.environ['PLAT_RUN_DIR'] + '/l.csv', 'w').write('a\\n1\\n')"


@pytest.mark.parametrize(
    ("text", "options", "says"),
    [
        (
            "print('step 60: train loss 1.5, val loss 2')",
            {},
            "text reads train_loss, val_loss from: step 60: ",
        ),
        ("print('a'); print('b')", {}, "its last lines: a | b"),
        ("open('log.csv', 'w').write('step,loss\\n1,2\\n')", {}, "log.csv, which is shared by all runs"),
        (FILE, {}, "script.metrics: l.csv reads l.csv"),
        (FILE, {"metrics": "m.csv"}, "script.metrics: l.csv reads l.csv"),
        (
            "from torch.utils.tensorboard import SummaryWriter\nSummaryWriter('runs/x').add_scalar('a', 1, 1)",
            {},
            "runs/x/events",
        ),
        (
            "open(os.environ['PLAT_RUN_DIR'] + '/m.csv', 'w').write('step,a\\n1,x\\n1,2,3\\n')",
            {"metrics": "m.csv"},
            "m.csv:3: the line has 3 cells, and the header has 2",
        ),
    ],
)
def test_where_nothing_was_read_the_message_proposes_what_reads_it(
    run: Run, text: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(RunError, match="logged no metric") as error:
        run(text, **options)
    assert says in error.value.render()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"metrics": {"a": 1}}, "is no source of metrics"),
        ({"metrics": "tensorbord"}, "no kind of metrics 'tensorbord'"),
        ({"metrics": "wandbb"}, "no kind of metrics 'wandbb'"),
        ({"metrics": "{lr}/m.csv"}, "has a placeholder"),
        ({"metrics": ["text", "../x.csv"]}, "is outside of PLAT_RUN_DIR"),
        ({"patterns": ["step {}"]}, "{} is no name"),
        ({"patterns": ["no name"]}, "'no name' names no number"),
    ],
)
def test_wrong_sources_and_patterns_are_refused_before_anything_runs(run: Run, options: Any, says: str) -> None:
    with pytest.raises(SpecError) as error:
        run("", **options)
    assert says in error.value.what


RESUMES = """
import json, os, pathlib, signal, sys, time
kept = pathlib.Path(os.environ["PLAT_CHECKPOINT_DIR"], "step.txt")
first = int(kept.read_text()) + 1 if kept.exists() else 1
for step in range(first, 13):
    for value in (step, step * 10):
        print(json.dumps({"step": step, "loss": value}))
    if step % 4 == 0:
        print(json.dumps({"epoch": step // 4, "val": step}))
    kept.write_text(str(step))
    if step == 9 and first == 1:
        time.sleep(1)
    if step == 10 and first == 1:
        os.kill(os.getpid(), signal.SIGKILL)
print(json.dumps({"epoch": 0, "test": 1}))
"""


def test_a_killed_script_has_the_history_of_an_undisturbed_one(plat: Any, project: Path) -> None:
    (project / "train.py").write_text(RESUMES)
    path = project / "mine.yaml"
    path.write_text("title: x\nbase: {trainer: script, script.command: python train.py}\nmatrix: {seed: [0]}\n")
    assert plat("sweep", path)[0] == 0
    (identity,) = Home(project / "plat-home").run_ids()
    paths = Home(project / "plat-home").run(identity)
    found: Values = {}
    for row in run_history(paths)[0]:
        found.setdefault(row.key, {})[row.step] = row.value
    assert len(paths.attempts()) == 2 and found == {
        "loss": {step: step * 10.0 for step in range(1, 13)},
        "val": {1: 4.0, 2: 8.0, 3: 12.0},
        "test": {0: 1.0},
    }
    result = read_result(paths)
    assert result is not None and "replaced: loss" in result["summary"]["notes"]
    shown = " ".join("".join(plat("report", path)[1:]).split())
    assert "1 run" in shown and "noted something about metrics" in shown and "replaced: loss (" in shown
    assert "replaced: loss (" in " ".join(plat("why", identity)[1].split())


def test_ids_of_scripts_are_the_same_with_and_without_patterns(project: Path) -> None:
    (project / "t.py").write_text("print('{\"a\":1}')\n")
    base = '{trainer: script, script.command: "python t.py --lr {lr}"%s}'
    ids = {}
    for more in ("", ", script.metrics: m.csv", ", script.patterns: ['it {step} {loss}']"):
        (project / "e.yaml").write_text(f"title: x\nbase: {base % more}\nmatrix: {{lr: [0.1, 0.2], seed: [0]}}\n")
        ids[more] = [run.id for run in load_experiment(project / "e.yaml").runs]
    assert ids[""] == ["7d7797f1ba939845", "5836f455d3035ed1"]  # as before script.patterns existed
    assert ids[", script.metrics: m.csv"] == ["987b34b7b43eefca", "b5bb1d03e574743f"]
    assert len({identity for found in ids.values() for identity in found}) == 6
