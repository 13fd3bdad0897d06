"""Files of metrics, by content: growing, rewritten, overwritten, replaced; CSV as people and libraries write it."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import plat
from plat.trainer.script.readers.metrics_file import MetricsFile, MetricsFiles
from plat.trainer.script.readers.objects import Logged

Curves = dict[str, dict[int, float]]


class Reading:
    """What was read of a file, call by call."""

    def __init__(self, path: Path, step: str = "", **options: int) -> None:
        self.refused: list[str] = []  # each once
        self.found: list[Logged] = []
        self.path = path
        self._file = MetricsFile(path, step, self._refuse, **options)

    def _refuse(self, what: str, where: str, fix: str) -> None:
        if f"{where}: {what}" not in self.refused:
            self.refused.append(f"{where}: {what}")

    def read(self, is_last: bool = False) -> list[Logged]:
        new = list(self._file.new(is_last))
        self.found += new
        return new

    def curves(self) -> Curves:
        """Return metric -> step -> the last value."""
        return curves(self.found)


def curves(found: list[Logged]) -> Curves:
    made: Curves = {}
    for logged in found:
        for name, value in logged.metrics.items():
            made.setdefault(name, {})[logged.step] = value
    return made


def whole(path: Path, text: str, step: str = "") -> Reading:
    path.write_bytes(text.encode())
    reading = Reading(path, step)
    reading.read(is_last=True)
    return reading


@pytest.mark.parametrize("name", ["metrics.csv", "metrics.jsonl"])
def test_a_file_is_read_as_it_grows(tmp_path: Path, name: str) -> None:
    reading = Reading(tmp_path / name)
    assert reading.read() == []
    rows = [(1, 0.5), (2, 0.25), (3, 0.125)]
    if name.endswith(".csv"):
        lines = ["step,loss,name\n", *(f"{step},{loss},x\n" for step, loss in rows)]
    else:
        lines = [json.dumps({"step": step, "loss": loss}) + "\n" for step, loss in rows]
    with open(tmp_path / name, "a") as writer:
        for line in lines:
            for part in (line[:4], line[4:]):
                writer.write(part)
                writer.flush()
                reading.read()
        writer.write("9,9,y" if name.endswith(".csv") else '{"step": 9, "loss": 9}')
    assert [(logged.step, logged.metrics) for logged in reading.found] == [
        (step, {"loss": loss}) for step, loss in rows
    ]
    assert [logged.step for logged in reading.read(is_last=True)] == [9] and reading.refused == []


def test_pipes_and_lines_without_an_end_do_not_hold_plat_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    assert Reading(tmp_path / "pipe.jsonl").read(is_last=False) == []
    path = tmp_path / "long.jsonl"
    path.write_bytes(b"{" * 5_000_000)
    reading = Reading(path)
    assert reading.read() == []
    with path.open("a") as writer:
        writer.write('{"a": 1}\n{"a": 2}\n{"a": 3}\n')
    assert [logged.metrics for logged in reading.read()] == [{"a": 2.0}, {"a": 3.0}]


def test_plat_log_writes_into_the_run_or_prints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PLAT_METRICS", raising=False)
    plat.log(1, loss=0.5)
    assert capsys.readouterr().out == '{"step": 1, "loss": 0.5}\n'
    monkeypatch.setenv("PLAT_METRICS", str(tmp_path / "metrics.jsonl"))
    plat.log(2, loss=0.25, time=7.0)
    (logged,) = MetricsFile(tmp_path / "metrics.jsonl", "", lambda *_: None, time_key="_plat_time").new()
    assert (logged.step, logged.metrics) == (2, {"loss": 0.25, "time": 7.0}) and logged.time > 1e9
    assert capsys.readouterr().out == ""


def test_a_file_that_is_overwritten_at_each_step_gives_every_value_that_was_seen(tmp_path: Path) -> None:
    for name in ("m.csv", "m.json", "m.jsonl"):
        reading = Reading(tmp_path / name)
        for step in range(1, 6):
            line = json.dumps({"step": step, "loss": 1 / step}, indent=1)
            texts = {"m.csv": f"step,loss\n{step},{1 / step}\n", "m.json": line}
            (tmp_path / name).write_text(texts.get(name, line.replace("\n", "") + "\n"))
            if step != 3:
                reading.read(is_last=step == 5)
        assert reading.curves() == {"loss": {1: 1.0, 2: 0.5, 4: 0.25, 5: 0.2}}, name


def test_a_rewritten_file_with_more_columns_loses_nothing_and_shows_nothing_under_another_name(tmp_path: Path) -> None:
    path = tmp_path / "metrics.csv"
    reading = Reading(path)
    path.write_text("step,train_loss\n1,2.5\n2,2.25\n")
    assert [logged.metrics for logged in reading.read()] == [{"train_loss": 2.5}, {"train_loss": 2.25}]
    path.write_text("acc,step,train_loss,val_loss\n,1,2.5,\n,2,2.25,\n0.5,2,,0.7\n")
    assert [(logged.step, logged.metrics) for logged in reading.read()] == [(2, {"acc": 0.5, "val_loss": 0.7})]
    with path.open("a") as file:
        file.write("0.75,3,2.0,0.6\n")
    reading.read(is_last=True)
    assert reading.curves() == {
        "train_loss": {1: 2.5, 2: 2.25, 3: 2.0},
        "acc": {2: 0.5, 3: 0.75},
        "val_loss": {2: 0.7, 3: 0.6},
    }


def test_a_replaced_file_is_read_anew_and_what_it_contradicts_is_marked(tmp_path: Path) -> None:
    path, other = tmp_path / "m.csv", tmp_path / "other"
    reading = Reading(path)
    path.write_text("step,loss\n1,1\n2,2\n3,3\n")
    reading.read()
    other.write_text("step,loss\n1,9\n2,2\n3,3\n4,4\n")
    os.replace(other, path)
    assert [(logged.step, logged.metrics, logged.look) for logged in reading.read()] == [
        (1, {"loss": 9.0}, "changed"),
        (4, {"loss": 4.0}, "found"),
    ]


def test_the_last_look_is_at_the_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    rows = [f"{step},{step}" for step in range(1, 2000)]
    path.write_text("\n".join(["step,loss", *rows, ""]))
    reading = Reading(path)
    reading.read()
    text = path.read_text()
    stamp = path.stat()
    path.write_text(text.replace("\n1000,1000\n", "\n1000,7777\n"))
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert reading.read() == []
    assert [(logged.step, logged.metrics, logged.look) for logged in reading.read(is_last=True)] == [
        (1000, {"loss": 7777.0}, "changed")
    ]


FORMS = {
    "a byte order mark": "\ufeffstep,loss\n1,0.5\n2,0.25\n",
    "semicolons and decimal commas": "step;loss\n1;0,5\n2;0,25\n",
    "semicolons and points": "step;loss\n1;0.5\n2;0.25\n",
    "tabs": "step\tloss\n1\t0.5\n2\t0.25\n",
    "comments": '#{"t_start": 1.5, "env_id": "x"}\nstep,loss\n1,0.5\n# a note\n2,0.25\n',
    "the header of numpy": "# step,loss\n1.0e+00,5.0e-01\n2.0e+00,2.5e-01\n",
    "a second header": "step,loss\n1,0.5\nstep,loss\n2,0.25\n",
    "a second header with more columns": "step,loss\n1,0.5\nnote,step,loss\nx,2,0.25\n",
    "an index of pandas": ",step,loss\n0,1,0.5\n1,2,0.25\n",
    "ends of lines in quotes": 'step,note,loss\n1,"two\nlines, ""quoted""",0.5\n2,x,0.25\n',
    "other ends of lines": "step,loss\r\n1,0.5\r\n2,0.25\r\n",
    "empty lines and missing values": "step,loss,val\n1,0.5,NA\n\n2,0.25,\n",
    "texts": "step,loss,note\n1,0.5,a\n2,0.25,b\n",
    "upper case": "Step,loss\n1,0.5\n2,0.25\n",
    "no end": "step,loss\n1,0.5\n2,0.25",
    "no step": "loss\n0.5\n0.25\n",
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_csv(tmp_path: Path, form: str) -> None:
    reading = whole(tmp_path / "m.csv", FORMS[form])
    assert (reading.curves(), reading.refused) == ({"loss": {1: 0.5, 2: 0.25}}, [])


def test_a_column_is_numbers_of_one_form_or_is_refused_with_its_cell(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    assert whole(path, 'step,r\n1,"950.5"\n2,"1,020.5"\n').curves() == {"r": {1: 950.5, 2: 1020.5}}
    for cell in ("12%", "1 020", "-", '"0,5"', "0x10"):
        reading = whole(path, f"step,a,r\n1,1,0.5\n2,1,{cell}\n3,1,0.75\n")
        text = cell.strip('"')
        says = f"{path}:3: the column r has numbers, and here {text!r}: it is not read from here on"
        assert reading.refused == [says]
        found = reading.curves()
        assert found["a"] == {1: 1.0, 2: 1.0, 3: 1.0} and found["r"][1] == 0.5
        assert math.isnan(found["r"][2]) and 3 not in found["r"]  # the value before is not the last one
    reading = whole(path, "step,a,r\n1,1,-\n2,1,0.5\n")
    assert (
        reading.curves() == {"a": {1: 1.0, 2: 1.0}} and "the column r has texts, and here '0.5'" in reading.refused[0]
    )


@pytest.mark.parametrize(
    ("text", "ret", "says"),
    [
        ('step,ret\n1,"0,512"\n2,"0,113"\n', {1: 0.512, 2: 0.113}, ""),
        ('step,ret\n1,"1,512"\n2,"2,113"\n', {1: 1512.0, 2: 2113.0}, ""),
        ('step,ret,lr\n1,"1,512","0,5"\n', {1: 1.512}, ""),
        ("step;ret;lr\n1.000;1.020;\n2.000;1.030;0,5\n", {1000: 1020.0, 2000: 1030.0}, ""),
        ("step;ret;lr\n1.000;1.020;\n2.000;1.030;0.5\n", {1: 1.02, 2: 1.03}, ""),
        ("step;ret\n1;1.020\n2;3\n", None, "'1.020' in the column ret is 1.02 or 1020.0"),
        ("step,ret\n1,12%\n2,13%\n", None, "the column ret is not read: '12%' is no number"),
        ("step,ret\n1,$10\n2,$12\n", None, "the column ret is not read: '$10' is no number"),
        ("step,ret\n1,1 020\n2,1 030\n", None, "the column ret is not read: '1 020' is no number"),
    ],
)
def test_one_dialect_for_a_file(tmp_path: Path, text: str, ret: dict[int, float] | None, says: str) -> None:
    grown = Reading(tmp_path / "grown.csv")
    for place in range(len(text)):
        grown.path.write_text(text[:place])
        grown.read()
    grown.path.write_text(text)
    grown.read(is_last=True)
    for reading in (grown, whole(tmp_path / "m.csv", text)):
        assert says in "".join(reading.refused) and len(reading.refused) == bool(says)
        found = reading.curves().get("ret")
        assert found == ret or (ret is None and math.isnan(found[1])) if found else ret is None


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("step,a\n1,1,1\n2,2\n", "m.csv:2: the line has 3 cells, and the header has 2"),
        ("step,a\n1\n2,2\n", "m.csv:2: the line has 1 cells, and the header has 2"),
        ("step,a\nfirst,1\n2,2\n", "m.csv:2: the step step is 'first', which is no number"),
        ("step,a\n,1\n2,2\n", "m.csv:2: the line has no step, and others have one"),
        ('step,a\n2,2\n3,"1\n', "m.csv:3: a quote is not closed"),
        ("step,a,b,b\n2,2,3,4\n", "m.csv:1: two columns are called 'b'"),
    ],
)
def test_a_line_that_cannot_be_read_is_named_and_others_are_read(tmp_path: Path, text: str, says: str) -> None:
    reading = whole(tmp_path / "m.csv", text)
    assert reading.curves()["a"][2] == 2.0 and any(each.endswith(says) for each in reading.refused)


@pytest.mark.parametrize("text", ["1,0.5\n2,0.4\n", ",0,1\n1,2,3\n", "1;0,5;adam\n2;0,4;sgd\n"])
def test_a_file_without_a_header_is_refused(tmp_path: Path, text: str) -> None:
    reading = whole(tmp_path / "m.csv", text)
    assert reading.found == [] and len(reading.refused) == 1
    assert "m.csv:1: the first line must name the columns, and begins with the number" in reading.refused[0]
    assert whole(tmp_path / "n.csv", "step,0.1,0.9\n1,2,3\n").curves() == {"0.1": {1: 2.0}, "0.9": {1: 3.0}}


@pytest.mark.parametrize("name", ["m.jsonl", "m.json"])
def test_several_objects_on_one_line_are_read(tmp_path: Path, name: str) -> None:
    two = '{"step": 1, "loss": 0.5}{"step": 2, "loss": 0.25}\n'
    assert whole(tmp_path / name, two).curves() == {"loss": {1: 0.5, 2: 0.25}}
    assert whole(tmp_path / name, two * 2).curves() == {"loss": {1: 0.5, 2: 0.25}}
    assert whole(tmp_path / name, '{"step": 1, "loss": 0.5}{"step": 2, "lo\n').curves() == {}


def test_columns_that_count_in_their_own_way(tmp_path: Path) -> None:
    reading = whole(tmp_path / "m.csv", "step,epoch,loss,val\n10,,0.5,\n20,,0.4,\n,1,,0.7\n30,2,0.3,\n")
    assert [(logged.counter, logged.step) for logged in reading.found] == [
        ("step", 10), ("step", 20), ("epoch", 1), ("step", 30)
    ]  # fmt: skip
    assert reading.curves()["val"] == {1: 0.7}


def test_several_files_of_a_pattern_count_a_value_once(tmp_path: Path) -> None:
    history: list[dict[str, float]] = []
    source = MetricsFiles(
        tmp_path, "*/trainer_state.json", lambda path, known: MetricsFile(path, "", lambda *_: None, known)
    )
    found: list[Logged] = []
    for step in (10, 20):
        history += [{"epoch": step / 15, "loss": 1 / step, "step": step}, {"eval_loss": 2 / step, "step": step}]
        folder = tmp_path / f"checkpoint-{step}"
        folder.mkdir()
        (folder / "trainer_state.json").write_text(json.dumps({"log_history": history, "max_steps": 20}, indent=2))
        found += source.new()
    assert curves(found + list(source.new(is_last=True))) == {
        "loss": {10: 0.1, 20: 0.05},
        "eval_loss": {10: 0.2, 20: 0.1},
        "epoch": {10: 10 / 15, 20: 20 / 15},
    }
    assert sum(len(logged.metrics) for logged in found) == 6


CELL = st.sampled_from(["", "1", "0.5", "-3e-2", "1,020", "0,5", "nan", "x", "7.5", "1.020"])
TABLE = st.lists(st.tuples(CELL, CELL), max_size=8)


def pieces(data: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    yield from (data[first:last] for first, last in pairwise(places))


def quoted(cell: str) -> str:
    return f'"{cell}"' if "," in cell else cell


@settings(max_examples=150, deadline=None)
@given(TABLE, st.lists(st.integers(0, 150), max_size=6), st.sampled_from([",", ";"]))
def test_a_growing_file_gives_what_the_whole_file_gives(
    rows: list[tuple[str, str]], cuts: list[int], separator: str
) -> None:
    lines = [separator.join(["step", "a", "b"])]
    lines += [separator.join([str(step), *map(quoted, cells)]) for step, cells in enumerate(rows)]
    data = "".join(f"{line}\n" for line in lines).encode()
    with tempfile.TemporaryDirectory() as folder:
        grown, at_once = Reading(Path(folder, "m.csv")), Reading(Path(folder, "n.csv"))
        with open(grown.path, "ab", buffering=0) as file:
            for piece in pieces(data, cuts):
                file.write(piece)
                grown.read()
        grown.read(is_last=True)
        at_once.path.write_bytes(data)
        at_once.read(is_last=True)
        one, other = (
            sorted((name, sorted(each.items())) for name, each in read.curves().items()) for read in (grown, at_once)
        )
        assert repr(one) == repr(other)  # NaN equals itself
        assert {each.replace("m.csv", "n.csv") for each in grown.refused} == set(at_once.refused)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), min_size=1), min_size=1, max_size=8))
def test_a_logger_that_writes_anew_with_more_columns_loses_nothing(rows: list[dict[str, int]]) -> None:
    """As Lightning's and stable-baselines3's loggers do: a new key makes a new header, sorted, and all rows again."""
    with tempfile.TemporaryDirectory() as folder:
        reading = Reading(Path(folder, "metrics.csv"))
        for count in range(1, len(rows) + 1):
            names = sorted({name for row in rows[:count] for name in row} | {"step"})
            full = [{"step": step, **row} for step, row in enumerate(rows[:count])]
            lines = [",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in full)]
            reading.path.write_text("\n".join(lines) + "\n")
            if count % 2:
                reading.read()
        reading.read(is_last=True)
        expected: Curves = {}
        for step, row in enumerate(rows):
            for name, value in row.items():
                expected.setdefault(name, {})[step] = value
        assert reading.curves() == expected and reading.refused == []
