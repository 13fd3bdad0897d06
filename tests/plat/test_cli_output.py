"""What the command line does with odd outputs and endings: no stdout, plain ASCII, narrow or closed terminals."""

from __future__ import annotations

import contextlib
import fcntl
import io
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest

from plat.app.messages import stage
from plat.cli import _guarded, main
from plat.cli.screen import output
from plat.dispatch.dispatcher import Change
from plat.dispatch.follower import View
from plat.dispatch.progress import Live, Totals
from plat.errors import HomeError, SpecError, StoreError
from plat.store.disk.durable import to_checked_json
from plat.store.home import Home
from plat.store.mlflow.sqlite_file import ensure_sqlite
from plat.store.run_directory.spool import SpoolWriter

FILE = "title: A test\nbase: {scale: smoke}\nmatrix:\n  task: [frozenlake]\n  seed: [0]\n"
ENDLESS = "early_stop.success_window: 0, early_stop.variance_window: 0, early_stop.empty_window: 0}"
NAME = "sokoban-grpo-qwen2.5-3b-instruct-top_p-0.95-kl0.001-s0-1a2b3c4d"


def plat(*arguments: object, shell: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
    command = f"{sys.executable} -m plat {' '.join(map(str, arguments))} {shell}"
    env = {**os.environ, **environment}
    return subprocess.run(command, shell=True, capture_output=True, text=True, timeout=60, env=env)


def test_what_an_encoding_lacks_gets_a_plain_spelling():
    output.make_streams_safe()
    text = io.TextIOWrapper(io.BytesIO(), encoding="ascii", errors="plat.plain")
    text.write("[−16.2, +16.2] – … ±2 Σ")
    text.flush()
    assert text.buffer.getvalue() == b"[-16.2, +16.2] - . +-2 ?"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("text", "piped", "shown"),
    [
        ("plain\ttext é\n", "plain\ttext é\n", "plain\ttext é\n"),
        ("a\x1b[31mred\x1b[0m", "a\\x1b[31mred\\x1b[0m", "a\x1b[31mred\x1b[0m"),
        ("\x1b]0;title\x07\x1b[2J", "\\x1b]0;title\\x07\\x1b[2J", "\\x1b]0;title\\x07\\x1b[2J"),
        ("a\rb\x9b1m\u202ec", "a\\rb\\x9b1m\\u202ec", "a\\rb\\x9b1m\\u202ec"),
        ("\ud800", "\\ud800", "\\ud800"),
    ],
)
def test_control_characters_never_reach_the_terminal(text, piped, shown):
    for stream, expected in ((io.StringIO(), piped), (Terminal(), shown)):
        print(text, end="", file=output.SafeStream(stream))
        assert stream.getvalue() == expected


def test_what_a_home_of_somebody_else_says_is_spelled_out(tmp_path):
    meta = tmp_path / "runs" / "00" / "00ff00ff00ff00ff" / "meta.json"
    meta.parent.mkdir(parents=True)
    content = {"id": "00ff00ff00ff00ff", "name": "evil\x1b]0;title\x07", "axes": {}}
    meta.write_bytes(to_checked_json(content))
    done = plat("status", "--home", tmp_path)
    assert done.returncode == 0 and "evil\\x1b]0;title\\x07" in done.stdout and "\x1b" not in done.stdout


@pytest.mark.parametrize("verb", ["status", "plan", "sweep"])
def test_ctrl_c_at_any_moment_is_no_mistake(tmp_path, verb):
    """Python's own start is left out: it ends when our first module is imported, which the child says."""
    (tmp_path / "small.yaml").write_text(FILE)
    code = f"import plat.entry, os, sys; sys.argv[1:] = [{verb!r}, 'small.yaml']; os.write(1, b'.'); plat.entry.main()"
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    ends = {}
    with contextlib.ExitStack() as stack:
        for delay in (0.005, 0.02, 0.04, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.9):
            env = os.environ | {"PLAT_HOME": str(tmp_path / f"home-{delay}")}
            process = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, env=env, **pipes)
            ends[delay] = stack.enter_context(process)
            assert process.stdout.read(1) == b"."
            time.sleep(delay)
            process.send_signal(signal.SIGINT)
        errors = {delay: process.communicate(timeout=60)[1] for delay, process in ends.items()}
    for delay, err in errors.items():
        process = ends[delay]
        if err.endswith(b'File "<string>", line 1, in <module>\nKeyboardInterrupt\n') and err.count(b"File ") == 1:
            continue  # the signal came between the dot and the first line of `main`
        # -SIGINT: the verb was done, and Python had put the default handler back on its way out.
        assert process.returncode in (0, 130, -signal.SIGINT), (delay, err)
        assert b"Traceback" not in err and b"KeyboardInterrupt" not in err, delay
        assert b"interrupted" in err + b"interrupted" * (verb == "sweep") or process.returncode != 130, delay
        assert not err or process.returncode == 130, delay


def test_a_closed_stdout_and_a_wrong_width_are_no_mistakes(tmp_path):
    for end in (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
        done = plat("status", PLAT_HOME=tmp_path, shell=end)
        assert (done.returncode, done.stderr) == (0, ""), end
    (tmp_path / "small.yaml").write_text(FILE)
    assert plat("plan", tmp_path / "small.yaml", "--home", tmp_path, COLUMNS="abc").returncode == 0


def test_a_narrow_terminal_puts_the_name_above_its_cells_and_cuts_nothing():
    from rich.console import Console

    text = io.StringIO()
    console = Console(file=text, width=80)
    views = [View("1", NAME, "running", 120, 400, 0.431, seconds=1500.0, eta=9000.0)]
    console.print(Live(console)._table(views, Totals(72, 12, 0, 1, 0, 59, 0, 750.0)))
    lines = text.getvalue().splitlines()
    name, cells = next((lines[index - 1], line) for index, line in enumerate(lines) if "120/400" in line)
    assert name.strip() == NAME and max(map(len, lines)) <= 80
    assert cells.split() == ["running", "120/400", "43.1", "%", "25.0", "min", "2.5", "h"]


def test_the_live_board_spells_out_control_characters():
    from rich.console import Console

    evil = "a\x1b]0;title\x07b\x1b[2J"
    text = io.StringIO()
    board = Live(Console(file=text, force_terminal=True, width=120))
    drawing = text.getvalue()
    board.message(evil)
    board.change(Change("id", "run", evil, "ended", "failed:error", evil))
    board.update([View("1", evil, "running", 1, 2, seconds=1.0)], Totals(1, 0, 0, 1, 0, 0, 0, None))
    board.end()
    written = text.getvalue().removeprefix(drawing)
    assert "\x1b]0;" not in written and "\x07" not in written and written.count("\x1b[2J") == 0
    assert written.count("\\x1b]0;title\\x07b\\x1b[2J") >= 3


def test_a_run_that_was_interrupted_is_not_called_running_any_more():
    from rich.console import Console

    text = io.StringIO()
    board = Live(Console(file=text, force_terminal=True, width=120))
    running = Totals(1, 0, 0, 1, 0, 0, 0, None)
    board.update([View("1", "sokoban-s0", "running", 3, 30, seconds=1.0)], running)
    board.change(Change("a", "run", "sokoban-s0", "ended", "interrupted", "asked to stop"))
    text.seek(0), text.truncate()
    board.update([], Totals(1, 0, 0, 0, 0, 0, 0, None))
    assert "0 of 1 done" in text.getvalue() and "running" not in text.getvalue()
    board.end()


def test_a_live_table_outlives_its_terminal():
    from rich.console import Console

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    console = Console(file=io.StringIO(), force_terminal=True)
    live = Live(console)
    console.file = Gone()
    live.message("stopping")
    live.update([], Totals(1, 0, 0, 1, 0, 0, 0, None))
    live.end()


def test_closing_the_terminal_is_an_interruption(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(FILE.replace("smoke}", "smoke, train.iterations: 500, " + ENDLESS))
    child, terminal = pty.fork()
    if child == 0:
        command = [sys.executable, "-m", "plat", "sweep", str(path), "--home", str(tmp_path / "home")]
        os.execve(sys.executable, command, {**os.environ, "TERM": "xterm"})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    seen = b""
    while not re.search(rb"\d/500 ", seen):
        try:
            seen += os.read(terminal, 1 << 16)
        except OSError:  # it ended
            raise AssertionError(seen.decode(errors="replace")) from None
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 130


@pytest.mark.parametrize(
    ("error", "dispatched", "code"),
    [
        (HomeError("full"), True, 3),
        (StoreError("locked"), True, 3),
        (OSError(28, "No space left on device", "/x"), True, 3),
        (SpecError("wrong"), True, 2),
        (HomeError("full"), False, 2),
        (OSError(5, "Input/output error"), True, 130),
        (KeyboardInterrupt(), False, 130),
    ],
)
def test_the_exit_code_says_whether_anything_was_done(monkeypatch, capsys, error, dispatched, code):
    def verb(_):
        stage.dispatched = dispatched
        raise error

    monkeypatch.setattr("plat.cli._verb", verb)
    assert _guarded(["sweep"]) == code
    assert bool(capsys.readouterr().err) == (not isinstance(error, OSError) or error.errno != 5)


def test_an_early_ctrl_c_gets_a_line(monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("plat.spec.expansion.experiment.load_experiments", interrupted)
    with pytest.raises(SystemExit) as stop:
        main(["plan", "small.yaml"])
    assert stop.value.code == 130 and capsys.readouterr().err.count("\n") == 1


def test_a_pipe_is_no_experiment_file_and_retry_makes_no_home(tmp_path):
    os.mkfifo(tmp_path / "pipe.yaml")
    done = plat("plan", tmp_path / "pipe.yaml")
    assert done.returncode == 2 and "regular file" in done.stderr
    done = plat("retry", "--home", tmp_path / "none")
    assert done.returncode == 0 and "no failed run" in done.stdout and not (tmp_path / "none").exists()


def test_ui_refuses_a_port_or_store_it_cannot_use(tmp_path):
    home = Home(tmp_path / "home").create()
    ensure_sqlite(home.store_uri(f"sqlite:///{home.database}"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        done = plat("ui", "--home", home.root, "--port", taken.getsockname()[1], MLFLOW_TRACKING_URI="")
    assert done.returncode == 2 and "--port" in done.stderr
    assert plat("ui", "--home", home.root, "--port", 99999).returncode == 2
    Path(home.database).write_text("no database")
    done = plat("ui", "--home", home.root, MLFLOW_TRACKING_URI="")
    assert done.returncode == 2 and "mlflow.db" in done.stderr


def test_logs_of_a_silent_run_are_its_evaluations(tmp_path):
    home = Home(tmp_path).create()
    attempt = home.run("00ff00ff00ff00ff").attempt(1)
    attempt.root.mkdir(parents=True)
    attempt.log.touch()
    attempt.outcome.write_text("{}")
    assert "no evaluation yet" in plat("logs", "00ff", "--home", tmp_path).stdout
    spool = SpoolWriter(attempt.events, attempt.run.id)
    spool.append(9, {"train/loss": 1.0})
    spool.append(10, {"val/success": 0.25, "mi/first_turn/retrieval_acc": 0.5})
    spool.close()
    lines = plat("logs", "00ff", "--home", tmp_path).stdout.splitlines()
    assert str(attempt.log) in lines[0] and lines[1:] == ["  step 10    success 25.0 %"]
    attempt.log.write_text("words\n")
    assert plat("logs", "00ff", "--home", tmp_path).stdout == "words\n"


COLOURED = "\x1b[36m(Worker pid=7)\x1b[0m starts\n  0%|  |\r\x1b[K 50%|# |\r100%|##|\r\nready\r\n"


@pytest.mark.parametrize(("variables", "colour"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_of_a_log_are_for_terminals(tmp_path, variables, colour):
    attempt = Home(tmp_path).create().run("00ff00ff00ff00ff").attempt(1)
    attempt.root.mkdir(parents=True)
    attempt.log.write_bytes(COLOURED.encode())
    attempt.outcome.write_text("{}")
    plain = "(Worker pid=7) starts\n100%|##|\nready\n"
    assert plat("logs", "00ff", "--home", tmp_path, **variables).stdout == plain
    assert plat("logs", "00ff", "--follow", "--home", tmp_path, **variables).stdout == plain
    attempt.log.write_text("\x1b[31mred\x1b[0m\n")
    command = [sys.executable, "-m", "plat", "logs", "00ff", "--home", str(tmp_path)]
    child, terminal = pty.fork()
    if child == 0:
        os.environ.pop("NO_COLOR", None)
        os.execve(sys.executable, command, {**os.environ, "TERM": "xterm", **variables})
    shown = b""
    while chunk := _read(terminal):
        shown += chunk
    os.waitpid(child, 0)
    assert shown == (b"\x1b[31mred\x1b[0m\r\n" if colour else b"red\r\n")


def _read(terminal: int) -> bytes:
    """What stands on a terminal, b"" once the program has ended."""
    try:
        return os.read(terminal, 1 << 16)
    except OSError:
        return b""


def test_another_system_than_linux_is_refused_before_anything_is_imported(monkeypatch, capsys):
    from plat.entry import main

    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error: plat runs on Linux, and this is darwin\n  fix: ")
