"""The live displays under hostile texts: names, titles, notes and reasons that plug-ins and files give.

Whatever is shown, the terminal gets no control character but those of the display itself, and no line is too long.
"""

from __future__ import annotations

import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from plat.app.entries import Entry
from plat.characters import forbidden_character, one_line
from plat.cli.screen.watch_screen import Screen, describe
from plat.dispatch.dispatcher import ENDED, QUEUED, RUNNING, Change
from plat.dispatch.follower import View
from plat.dispatch.progress import Live, Plain, Totals
from plat.store.home import Home
from plat.store.run_directory.state import RunState

WIDTH = 80
HOSTILE = {
    "escape": "a\x1b[2J\x1b]0;owned\x07b",
    "newlines": "first\nsecond\r\nthird\ttab",
    "separators": "first\u2028second\u2029third\x85fourth",
    "right-to-left": "a\u200fb\u061cc\u202ed\u2067e",
    "long": "x" * 10_000,
    "markup": "[red]a[/red] [bold [/] [link=http://a]b[/link] :smile:",
    "wide": "漢字" * 60 + "😀" * 10,
    "combining": "e\u0301" * 100,
    "surrogate": "a\ud800b",
    "empty": "",
}
OWN = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\n")  # by which a display moves the cursor, and chooses colours
TOTALS = Totals(runs=2, done=0, failed=0, running=1, waiting=0, queued=1, preparing=1, eta=None)


@pytest.fixture(params=HOSTILE.values(), ids=HOSTILE)
def text(request):
    return request.param


def views(text):
    return [
        View("1", text, "running", 1, 5, 0.5, seconds=1.0),
        View("2", text, "starting", None, 5, seconds=1.0, note=text),
        View("3", text, "elsewhere", seconds=1.0, note=text, kind="prepare"),
    ]


def changes(text):
    return [
        Change("1", kind, text, state, "failed:error", "a reason")
        for kind in ("run", "prepare")
        for state in (RUNNING, QUEUED, ENDED)
    ]


def hold(output):
    """The terminal gets nothing but what the display itself writes, and text."""
    plain = OWN.sub("", output)
    assert forbidden_character(plain) is None and "\t" not in plain, forbidden_character(plain)
    return [re.sub(OWN, "", line) for line in re.split("[\r\n]", output)]


def test_the_live_table_of_a_sweep(text):
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=WIDTH, height=4000, color_system="standard")
    live = Live(console)
    live.update(views(text), TOTALS)
    live.end()
    lines = hold(stream.getvalue())
    assert all(cell_len(line) <= WIDTH for line in lines), max(lines, key=cell_len)
    assert "…" not in stream.getvalue(), "nothing is cut"
    stream.seek(0), stream.truncate()
    live = Live(console)
    for change in changes(text):
        live.change(change)
    live.end()
    hold(stream.getvalue())
    assert one_line(text) in stream.getvalue(), "as it is: neither markup nor a name of an emoji"


def test_the_plain_lines_of_a_sweep(text):
    stream = io.StringIO()
    plain = Plain(stream)
    plain._summary_at = -1e9
    plain.update(views(text), TOTALS)
    lines = [line for line in stream.getvalue().split("\n") if line]
    assert all(line.startswith("[") for line in lines), "one line for each fact"


def test_the_table_and_the_lines_of_watch(text, tmp_path):
    state = RunState("running", iterations=40, starting=text)
    entry = Entry("0123456789abcdef", text, {}, state)
    assert "\n" not in describe(View(entry.id, text, "running", 27, 40, success=0.5, pace=1.0, note=text))
    screen = Screen(Home(tmp_path), lambda: [entry], 1.0)
    screen._update()
    screen._message = f"asked to stop: {text}"
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=WIDTH, height=4000, color_system="standard")
    console.print(screen._drawn(WIDTH, 4000))
    lines = hold(stream.getvalue())
    assert all(cell_len(line) <= WIDTH for line in lines), max(lines, key=cell_len)
