"""The page on importing: its commands, as they are printed, give what it says."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest
from mlflow import MlflowClient
from torch.utils.tensorboard import SummaryWriter

PAGE = (Path(__file__).parents[4] / "docs" / "importing.md").read_text(encoding="utf-8")
LOSSES = {(lr, seed): [lr + seed, lr / 2 + seed] for lr in (0.1, 0.2) for seed in (0, 1)}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, flags=re.M | re.S)


def make_csv(lr: float, seed: int) -> None:
    folder = Path("logs", f"lr={lr},seed={seed}")
    folder.mkdir(parents=True)
    folder.joinpath("log.csv").write_text("step,loss\n" + "".join(f"{s},{x}\n" for s, x in enumerate(LOSSES[lr, seed])))


def make_events(lr: float, seed: int) -> None:
    with SummaryWriter(f"events/lr={lr}-seed={seed}") as writer:
        for step, loss in enumerate(LOSSES[lr, seed]):
            writer.add_scalar("loss", loss, step)


def make_mlflow(client: MlflowClient, experiment: str, lr: float, seed: int) -> None:
    run = client.create_run(experiment).info.run_id
    for key, value in {"lr": lr, "seed": seed}.items():
        client.log_param(run, key, value)
    for step, loss in enumerate(LOSSES[lr, seed]):
        client.log_metric(run, "loss", loss, step=step)
    client.set_terminated(run)


def test_the_example_gives_the_file_that_the_page_shows(plat, project):
    Path("all.csv").write_text(blocks("csv")[0])
    (command, *_) = blocks("sh")
    code, out, err = plat(*shlex.split(command)[1:])
    assert (code, err) == (0, "") and "The effect of lr" in out and "report: plat-home/reports/lr/report.html" in out
    assert Path("lr.yaml").read_text() == blocks("yaml")[0] and len(list(Path("lr-runs").iterdir())) == 4
    out = plat("import", *shlex.split(command)[2:], "--force")[1]
    assert "nothing to do" in out


@pytest.mark.parametrize("command", blocks("sh")[1].splitlines())
def test_each_source_gives_its_numbers(plat, project, stored, empty_store, command, request):
    words = shlex.split(command)
    kind, out = words[2], words[-1]
    client = None
    if out == "wandb.yaml":
        offline = request.getfixturevalue("offline")
        offline([({"lr": lr, "seed": seed}, [{"loss": x} for x in xs]) for (lr, seed), xs in LOSSES.items()])
    if kind == "mlflow":
        shutil.copy(empty_store, "mlflow.db")
        client = MlflowClient(f"sqlite:///{project}/mlflow.db")
        experiment = client.create_experiment("mine", artifact_location="artifacts")
    chart, table = [["Step"], ["0"], ["1"]], "Name,State,lr,seed\n"
    for number, (lr, seed) in enumerate(LOSSES):
        if client is not None:
            make_mlflow(client, experiment, lr, seed)
        elif kind in ("table", "tensorboard"):
            (make_csv if kind == "table" else make_events)(lr, seed)
        for cells, text in zip(chart, [f"run{number} - loss", *map(json.dumps, LOSSES[lr, seed])], strict=True):
            cells.append(text)
        table += f"run{number},finished,{lr},{seed}\n"
    Path("chart.csv").write_text("".join(",".join(cells) + "\n" for cells in chart))
    Path("table.csv").write_text(table)
    code, _, err = plat(*words[1:])
    assert (code, err) == (0, "")
    expected = {key: {"loss": [(step, pytest.approx(x)) for step, x in enumerate(xs)]} for key, xs in LOSSES.items()}
    assert stored(out, "lr", "seed") == expected
