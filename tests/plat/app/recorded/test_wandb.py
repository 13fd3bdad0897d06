"""Runs of Weights & Biases: logs of offline runs, and exported CSV files."""

from __future__ import annotations

import json
import random
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

pytest.importorskip("wandb")
BLOCK, HEAD = 1 << 15, 7


def log_of(records: list[bytes]) -> bytes:
    """The bytes of a log of W&B, as its framing divides records into blocks."""
    data = b":W&B" + struct.pack("<HB", 0xBEE1, 0)
    for record in records:
        is_first = True
        while is_first or record:
            if (left := BLOCK - len(data) % BLOCK) < HEAD:
                data, left = data + bytes(left), BLOCK
            piece, record = record[: left - HEAD], record[left - HEAD :]
            kind = (1 if is_first else 4) if not record else (2 if is_first else 3)
            data += struct.pack("<IHB", zlib.crc32(bytes([kind]) + piece), len(piece), kind) + piece
            is_first = False
    return data


def write(name: str, config: dict, losses: list[float], exit_code: int | None = 0, start: int = 1) -> Path:
    from wandb.proto import wandb_internal_pb2 as messages

    records = [messages.Record()]
    records[0].run.run_id, records[0].run.display_name = name, f"run-{name}"
    records[0].run.start_time.seconds = start
    for key, value in {**config, "_wandb": {}}.items():
        records[0].run.config.update.add(key=key, value_json=json.dumps(value))
    for step, loss in enumerate(losses):
        record = messages.Record()
        record.history.step.num = step
        for key, value in {"loss": loss, "_runtime": step * 2.0, "epoch": step // 2}.items():
            record.history.item.add(nested_key=key.split("."), value_json=json.dumps(value))
        record.history.item.add(key="picture", value_json=json.dumps({"_type": "image-file", "size": 3}))
        records.append(record)
    if exit_code is not None:
        records.append(messages.Record())
        records[-1].exit.exit_code = exit_code
    path = Path("wandb", f"offline-run-{name}", f"run-{name}.wandb")
    path.parent.mkdir(parents=True)
    path.write_bytes(log_of([record.SerializeToString() for record in records]))
    return path


def test_a_hundred_offline_runs_give_the_table_of_their_numbers(plat, project, means):
    draw = random.Random(7)
    finals: dict[tuple[float, str], list[float]] = {}
    for lr in (0.1, 0.01, 0.001, 0.0001):
        for optimizer in ("adam", "sgd", "lion", "adamw", "muon"):
            for seed in range(5):
                losses = [draw.gauss(1, 1) for _ in range(4)]
                finals.setdefault((lr, optimizer), []).append(losses[-1])
                config = {
                    "lr": lr,
                    "optim": {"name": optimizer},
                    "train_seed": seed,
                    "output_dir": f"out/{draw.random()}",
                }
                write(f"{lr}-{optimizer}-{seed}", config, losses)
    code, out, err = plat("import", "wandb", "wandb", "--out", "w.yaml", "--metrics", "loss")
    assert (code, err) == (0, "") and "w.yaml: 100 runs of wandb, axes: lr, optim.name, seed" in out
    assert "no axis, because it only names the runs: output_dir" in out
    table = means("w")
    assert len(table) == 20
    for (lr, optimizer), values in finals.items():
        low, high = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
        assert table[f"{lr} · {optimizer}", "loss"] == pytest.approx((np.mean(values), low, high), rel=1e-9)


def test_runs_that_wandb_itself_wrote(plat, offline, stored):
    rows = {lr: [{"loss": lr / (s + 1), "part": {"a": s}, "text": "x"} for s in range(300)] for lr in (0.1, 0.2)}
    offline([({"optim": {"lr": lr}}, rows[lr]) for lr in rows])
    code, out, _ = plat("import", "wandb", "wandb", "--out", "w.yaml")
    assert code == 0 and "2 runs of wandb, axes: optim.lr, seed" in out
    assert stored("w.yaml", "optim.lr") == {
        (lr,): {"loss": [(s, lr / (s + 1)) for s in range(300)], "part.a": [(s, s) for s in range(300)]}
        for lr in (0.1, 0.2)
    }


def test_long_records_cross_blocks(plat, project, stored):
    write("a", {"note": "x" * 100_000}, [0.5] * 2000)
    assert plat("import", "wandb", "wandb", "--out", "w.yaml")[0] == 0
    (curves,) = stored("w.yaml").values()
    assert curves["loss"] == [(step, 0.5) for step in range(2000)] and set(curves) == {"loss", "epoch"}


def test_what_counts_is_chosen(plat, project, stored):
    write("crashed", {"lr": 1, "seed": 5}, [1.0], exit_code=1)
    write("killed", {"lr": 1, "seed": 6}, [1.0], exit_code=None)
    write("b", {"lr": 1, "seed": 7}, [4.0, 3.0, 2.0, 1.0], start=3)
    write("a", {"lr": 1, "seed": 8}, [8.0, 7.0, 6.0, 5.0], start=2)
    options = ("import", "wandb", "wandb", "--out", "w.yaml", "--force")
    out = plat(*options, "--no-sweep")[1]
    assert "2 runs of wandb" in out and "left out, because they did not finish: 2 runs" in out
    assert "4 runs of wandb" in plat(*options, "--no-sweep", "--unfinished")[1]
    assert plat(*options, "--seed", "none", "--step", "epoch")[0] == 0
    assert stored("w.yaml", "seed") == {(0,): {"loss": [(0, 7.0), (1, 5.0)]}, (1,): {"loss": [(0, 3.0), (1, 1.0)]}}


def test_a_damaged_or_cut_log(plat, project):
    write("whole", {"seed": 1}, [1.0])
    path = write("other", {"seed": 2}, [1.0] * 50)
    data = path.read_bytes()
    path.write_bytes(data[:-50])
    assert "did not finish: 1 run" in plat("import", "wandb", "wandb", "--out", "w.yaml", "--no-sweep")[1]
    path.write_bytes(data[:1000] + bytes([data[1000] ^ 255]) + data[1001:])
    code, _, err = plat("import", "wandb", "wandb", "--out", "x.yaml")
    assert code == 2 and re.search("the log is damaged: the checksum at byte.*run-other.wandb", err, flags=re.S)
    path.write_text("something else")
    code, _, err = plat("import", "wandb", "wandb", "--out", "x.yaml")
    assert code == 2 and "the file is no log of W&B" in err and not list(Path.cwd().glob("x*"))


def test_no_log_is_refused(plat, project):
    Path("empty").mkdir()
    assert "the folder has no log of a W&B run" in plat("import", "wandb", "empty", "--out", "x.yaml")[2]
    assert "there is no such file or folder" in plat("import", "wandb", "nowhere", "--out", "x.yaml")[2]


CHART = '"Step","a - x - loss","a - x - loss__MIN","a - x - loss__MAX","b - loss"\n0,1.5,1.5,1.5,2.5\n1,0.5,0.5,0.5,\n'
TABLE = '"Name","State","Notes","lr","loss"\n"a - x","finished","-",0.1,0.5\n"b","finished","",0.01,2.5\n'


def test_exported_csv_files(plat, project, stored):
    Path("chart.csv").write_text(CHART)
    Path("table.csv").write_text(TABLE)
    code, out, _ = plat("import", "wandb", "chart.csv", "table.csv", "--out", "w.yaml")
    assert code == 0 and "axes: lr, seed" in out
    assert stored("w.yaml", "lr") == {(0.1,): {"loss": [(0, 1.5), (1, 0.5)]}, (0.01,): {"loss": [(0, 2.5)]}}


@pytest.mark.parametrize(
    ("chart", "table", "message"),
    [
        ("a,b\n1,2\n", TABLE, "no CSV of W&B's page|no file is the CSV of a chart"),
        (CHART, "lr\n1\n", r"no CSV of W&B's page.*table.csv:1"),
        (CHART, TABLE.replace('"b"', '"c"'), r"'b - loss' names no run of the table"),
        (CHART, TABLE.replace('"b"', '"a - x"'), "two runs are called 'a - x'"),
        (CHART.replace("0,1.5", "0.5,1.5"), TABLE, r"step is '0.5'.*chart.csv:2"),
        (CHART.replace("0,1.5", "0,many"), TABLE, r"'many' is no number.*chart.csv:2"),
        ("", TABLE, "the file is empty"),
    ],
)
def test_bad_exports_are_refused(plat, project, chart, table, message):
    Path("chart.csv").write_text(chart)
    Path("table.csv").write_text(table)
    code, _, err = plat("import", "wandb", "chart.csv", "table.csv", "--out", "w.yaml")
    assert code == 2 and re.search(message, err, flags=re.S), err
    assert not list(Path.cwd().glob("w*"))
