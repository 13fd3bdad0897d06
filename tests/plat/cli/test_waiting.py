"""What takes long says so on a terminal, and nowhere else; an import says which command reports what it brought."""

from __future__ import annotations

import shlex
import sys

import pytest
from cli_files import GUESSING

from plat.app import messages
from plat.app.messages import printed_by
from plat.cli.screen.output import tell
from plat.cli.verbs import import_


@pytest.mark.parametrize("watched", [True, False])
def test_a_long_step_says_how_far_it_is_where_somebody_watches(watched, monkeypatch, capsys):
    monkeypatch.setattr(messages, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(messages, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: watched)
    with printed_by(tell):
        assert list(messages.followed(["a", "b", "c"], "checking runs")) == ["a", "b", "c"]
    said = "".join(f"checking runs: {done} of 3 ...\n" for done in range(3))
    assert tuple(capsys.readouterr()) == ("", said if watched else "")


def test_a_short_step_says_nothing(monkeypatch, capsys):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert list(messages.followed(range(1000), "checking runs")) == list(range(1000))
    assert tuple(capsys.readouterr()) == ("", "")


def test_an_import_says_which_command_reports_all_of_its_runs(plat, spec, toy, tmp_path, monkeypatch):
    """The bundle was made under overrides: without them a report shows a part of its runs."""
    path, bundle, other = spec(GUESSING), tmp_path / "my results", tmp_path / "other home"
    assert plat("sweep", path, "matrix.seed=[0,1,2]")[0] == 0
    assert plat("export", path, "matrix.seed=[0,1,2]", "--out", bundle)[0] == 0
    steps: list[tuple[str, int]] = []
    monkeypatch.setattr(import_, "followed", lambda runs, doing: steps.append((doing, len(runs))) or runs)
    _, out, _ = plat("import", bundle, "--home", other)
    assert steps == [("writing runs", 6), ("checking runs", 6), ("copying runs into the store", 6)]
    command = shlex.split(out.split("report of them all: ")[1])
    assert command[:2] == ["plat", "report"] and "matrix.seed=[0,1,2]" in command
    assert str(other) in command and plat(*command[1:])[0] == 0
    reported = (other / "reports").glob("*/runs.csv")
    assert len(next(reported).read_text().splitlines()) == 1 + 6
