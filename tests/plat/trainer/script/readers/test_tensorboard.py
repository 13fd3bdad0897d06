"""Event files of TensorBoard, as `SummaryWriter` writes them, and their names in an import."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.tensorboard_source import read_tensorboard
from plat.errors import SpecError
from plat.trainer.script.readers.tensorboard import EventFiles

Values = dict[tuple[str, int], float]


def read(folder: Path) -> tuple[Values, list[str]]:
    """Return the last value of each metric and step, and what was said."""
    said: list[str] = []
    files = EventFiles(folder, lambda what, where, fix: said.append(what))
    found = [(name, logged.step, value) for logged in files.new() for name, value in logged.metrics.items()]
    return {(name, step): pytest.approx(value) for name, step, value in found}, said


def test_scalars_are_read_as_they_are_written(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    files, seen = EventFiles(tmp_path, lambda *_: None), []
    assert list(files.new()) == []
    with SummaryWriter(str(tmp_path / "logs")) as writer:
        for step in range(1, 4):
            writer.add_scalar("train/loss", 1 / step, step)
            writer.add_scalar("accuracy", step / 4, step)
            writer.add_text("note", "x", step)
            writer.flush()
            seen += list(files.new())
    assert list(files.new()) == []
    values = [{"train/loss": pytest.approx(1 / step)} for step in range(1, 4)]
    assert [(logged.step, logged.metrics) for logged in seen[::2]] == list(enumerate(values, start=1))
    assert [(logged.step, logged.metrics) for logged in seen[1::2]] == [(s, {"accuracy": s / 4}) for s in (1, 2, 3)]


def test_the_names_and_steps_are_those_of_an_import(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path / "runs" / "one")) as writer:
        for step in (10, 20):
            writer.add_scalar("return", 1 / step, step)
            writer.add_scalar("return", 2 / step, step)
            writer.add_scalars("loss", {"train": step, "val": step + 1}, step)
        writer.add_scalar("epoch/acc", 0.25, 1)
        writer.add_hparams({"lr": 0.1}, {"hparam/best": 0.75})
    found, said = read(tmp_path)
    expected = {("return", 10): 0.2, ("return", 20): 0.1, ("epoch/acc", 1): 0.25, ("hparam/best", 0): 0.75}
    expected |= {
        (f"loss_{name}/loss", step): step + more for step in (10, 20) for name, more in (("train", 0), ("val", 1))
    }
    assert found == expected and said == []
    (run,), _ = read_tensorboard([str(tmp_path)], Choice())
    assert {(name, step): v for step, metrics in run.history.items() for name, v in metrics.items()} == found
    assert run.replaced == 2


def test_parts_of_a_run_and_several_runs_have_names_of_their_own(tmp_path: Path) -> None:
    from torch.utils.tensorboard import SummaryWriter

    for number, name in enumerate(("logs/train", "logs/validation", "other")):
        with SummaryWriter(str(tmp_path / name), filename_suffix=str(number)) as writer:
            writer.add_scalar("loss", number, 1)
    found, said = read(tmp_path)
    assert found == {("train/loss", 1): 0, ("validation/loss", 1): 1, ("other/loss", 1): 2}
    assert said == ["there are several runs of TensorBoard, so metrics of this one begin with other/"]


def record(content: bytes, length: int | None = None) -> bytes:
    """Return a record of an event file with right checksums."""
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    head = struct.pack("<Q", len(content) if length is None else length)
    return head + struct.pack("<I", masked_crc32c(head)) + content + struct.pack("<I", masked_crc32c(content))


DAMAGED = {
    "not a message": record(b"\x0b"),
    "a length beyond memory": record(b"", length=2**63),
    "a tag that is no UTF-8": record(b"\x2a\x05\x0a\x03\x0a\x01\xff"),
    "a length of a field beyond the record": record(b"\x2a\xff\xff\xff\xff\x07"),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_record_with_right_checksums_is_one_message(tmp_path: Path, name: str) -> None:
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(tmp_path)) as writer:
        writer.add_scalar("loss", 0.5, 1)
    (path,) = tmp_path.glob("*tfevents*")
    path.write_bytes(path.read_bytes() + DAMAGED[name])
    with pytest.raises(SpecError) as raised:
        read_tensorboard([str(tmp_path)], Choice())
    assert "the event file is damaged: a record of it cannot be read" in raised.value.what
    assert raised.value.where == str(path)
    said: list[str] = []
    reader = EventFiles(tmp_path, lambda what, where, fix: said.append(what))
    found = [logged.metrics for logged in [*reader.new(), *reader.new()]]
    assert found == [{"loss": 0.5}] and len(said) == 1 and "the event file is damaged" in said[0], said
