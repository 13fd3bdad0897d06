"""The event spool: what was appended comes back, and damage stays where it is."""

import errno
import math
import os
import resource

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plat.store.run_directory.spool import SpoolWriter, read_events

LINE = st.tuples(st.integers(0, 1000), st.dictionaries(st.text(min_size=1, max_size=8), st.floats(), max_size=4))


def write(path, lines):
    spool = SpoolWriter(path, "a")
    for step, metrics in lines:
        spool.append(step, metrics)
    spool.close()


@given(lines=st.lists(LINE, max_size=12), cut=st.integers(0, 10_000))
def test_any_prefix_reads_as_a_prefix_and_goes_on(tmp_path_factory, lines, cut):
    path = tmp_path_factory.mktemp("spool") / "events.jsonl"
    write(path, lines)
    data = path.read_bytes()
    path.write_bytes(data[: min(cut, len(data))])
    first, offset = read_events(path)
    path.write_bytes(data)
    rest, end = read_events(path, offset)
    assert end == len(data)
    events = first + rest
    assert [event.step for event in events] == [step for step, _ in lines]
    for event, (_, metrics) in zip(events, lines, strict=True):
        assert {k: repr(v) for k, v in event.metrics.items()} == {k: repr(v) for k, v in metrics.items()}


def test_a_torn_last_line_is_left_for_later(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, [(0, {"a": 1.0}), (1, {"a": 2.0}), (2, {"a": 3.0})])
    data = path.read_bytes()
    path.write_bytes(data[:-18])
    events, offset = read_events(path)
    assert [event.step for event in events] == [0, 1]
    assert data[offset:].startswith(b'{"n":3,')
    path.write_bytes(data)
    assert [event.step for event in read_events(path, offset)[0]] == [2]


@pytest.mark.parametrize(
    "damage",
    [b"\x00\xff\xfe", b"{}", b"[1]", b'{"step": "x", "time": 1, "metrics": {}}', b"null", b'{"step": 1'],
)
def test_a_corrupt_middle_line_is_reported_and_skipped(tmp_path, damage):
    path = tmp_path / "events.jsonl"
    write(path, [(0, {"a": 1.0})])
    with open(path, "ab") as file:
        file.write(damage + b"\n")
    write(path, [(1, {"a": 2.0})])
    events, _ = read_events(path)
    assert [event.kind for event in events] == ["metrics", "corrupt", "metrics"]
    assert [event.step for event in events if event.kind != "corrupt"] == [0, 1]


@given(lines=st.lists(LINE, min_size=1, max_size=4), place=st.integers(0, 9999), change=st.integers(1, 255))
def test_any_changed_byte_is_noticed(tmp_path_factory, lines, place, change):
    """No line is ever read with another content than was written; the lines that a change touches are corrupt."""
    path = tmp_path_factory.mktemp("spool") / "events.jsonl"
    write(path, lines)
    whole = path.read_bytes()
    before = read_events(path)[0]
    at = place % len(whole)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ change]) + whole[at + 1 :])
    kept = [event for event in read_events(path)[0] if not event.is_damaged]
    assert len(kept) < len(before)
    assert {repr(event) for event in kept} <= {repr(event) for event in before}


def test_events_are_numbered_and_a_folder_in_the_way_is_said(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, [(0, {"a": 1.0}), (1, {"a": 2.0})])
    write(path, [(2, {"a": 3.0})])
    assert [event.number for event in read_events(path)[0]] == [1, 2, 3]
    path.unlink()
    path.mkdir()
    (event,) = read_events(path)[0]
    assert (event.kind, event.data, event.is_damaged) == ("unreadable", "Is a directory", True)


def test_numbers_that_json_does_not_know(tmp_path):
    path = tmp_path / "events.jsonl"
    write(path, [(0, {"nan": math.nan, "up": math.inf, "down": -math.inf, "tiny": 5e-324})])
    metrics = read_events(path)[0][0].metrics
    assert math.isnan(metrics["nan"]) and metrics["up"] == math.inf and metrics["down"] == -math.inf
    assert metrics["tiny"] == 5e-324


def test_tables_and_an_absent_file(tmp_path):
    spool = SpoolWriter(tmp_path / "events.jsonl", "a")
    spool.table("reward_matrix", 3, [[0, 1], [1, 0]])
    spool.sync()
    spool.close()
    (event,) = read_events(tmp_path / "events.jsonl")[0]
    assert (event.kind, event.table, event.step, event.data) == ("table", "reward_matrix", 3, [[0, 1], [1, 0]])
    assert read_events(tmp_path / "nothing.jsonl", 5) == ([], 5)
    with pytest.raises(ValueError, match="closed"):
        spool.append(4, {})


def test_a_full_disk_leaves_whole_lines_only(tmp_path):
    path = tmp_path / "events.jsonl"
    pid = os.fork()
    if pid == 0:  # a limit of the file size stands in for a full disk: write() comes back short
        code = 1
        try:
            import signal

            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
            spool = SpoolWriter(path, "a")
            try:
                for step in range(100):
                    spool.append(step, {"value": float(step)})
            except OSError as error:
                code = 0 if error.errno in (errno.ENOSPC, errno.EFBIG) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    data = path.read_bytes()
    assert data.endswith(b"\n") and len(data) <= 1000
    events, offset = read_events(path)
    assert offset == len(data) and [event.step for event in events] == list(range(len(events)))
    write(path, [(len(events), {"value": 0.0})])
    assert all(event.kind == "metrics" for event in read_events(path)[0])
