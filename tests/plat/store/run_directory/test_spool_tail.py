"""The newest progress of a spool, read from its end: the same as reading all of it, and without reading all of it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.store.run_directory import spool
from plat.store.run_directory.spool import Event, Newest, SpoolWriter, parse_line, read_events, read_newest

LINES = st.lists(
    st.tuples(
        st.integers(0, 2),  # how far the step advances
        st.sampled_from(["other", "success", "table", "damaged"]),
        st.floats(0, 1),
    ),
    max_size=30,
)


def write(path: Path, lines: list[tuple[int, str, float]], tail: bytes = b"") -> None:
    path.unlink(missing_ok=True)
    spool, step = SpoolWriter(path, "a"), 0
    for advance, kind, value in lines:
        step += advance
        if kind == "table":
            spool.table("words", step, ["val/success", value])  # names the measure, and is no value of it
        elif kind == "damaged":
            with path.open("ab") as file:
                file.write(b'{"step": 99, "metrics": {"val/success": \n')
        else:
            spool.append(step, {"val/success" if kind == "success" else "x": value})
    spool.close()
    with path.open("ab") as file:
        file.write(tail)


@given(LINES, st.sampled_from([b"", b'{"step": 1000, "ti']), st.sampled_from([1, 7, 64, 1 << 18]))
def test_it_says_what_reading_everything_says(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[int, str, float]], tail: bytes, block: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "events.jsonl"
    write(path, lines, tail)
    events, offset = read_events(path)
    whole = [event for event in events if event.kind != "corrupt"]
    success = [event.metrics["val/success"] for event in whole if "val/success" in event.metrics]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spool, "BLOCK", block)
        newest = read_newest(path)
    assert newest.step == max((event.step for event in whole), default=None)
    assert newest.value == (success[-1] if success else None)
    assert newest.offset == offset


def test_an_absent_spool_and_an_empty_one_say_nothing(tmp_path: Path) -> None:
    assert read_newest(tmp_path / "events.jsonl") == Newest()
    (tmp_path / "events.jsonl").touch()
    assert read_newest(tmp_path / "events.jsonl") == Newest()


def test_a_long_spool_is_not_read_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "events.jsonl"
    write(path, [(1, "success", 0.25), *[(1, "other", 0.5)] * 20_000, (1, "success", 0.75), (1, "other", 0.5)])
    parsed: list[bytes] = []

    def parse(line: bytes, run: str | None) -> Event:
        parsed.append(line)
        return parse_line(line, run)

    monkeypatch.setattr(spool, "parse_line", parse)
    newest = read_newest(path)
    assert (newest.step, newest.value) == (20_003, 0.75) and len(parsed) == 2


# --- following it ---------------------------------------------------------------------------------------------------
