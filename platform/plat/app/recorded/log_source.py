"""Read runs from logs of what scripts printed, such as the console log of verl: each file is a run."""

from __future__ import annotations

import re
from collections.abc import Sequence

from plat.app.recorded.foreign_run import ForeignRun, Read, merged
from plat.app.recorded.metric_choice import Choice
from plat.app.recorded.table_files import find
from plat.app.recorded.typed_table import unpacked
from plat.errors import RunError, SpecError
from plat.trainer.script.readers.objects import Logged
from plat.trainer.script.readers.output import Output
from plat.trainer.script.readers.text import METRIC

COLOUR = rb"(?:\x1b\[[0-9;]*m)*"
DASHED_BYTES = re.compile(
    rb"^" + COLOUR + rb"(?:\([^()\n]*\)" + COLOUR + rb"\s*)?step:\d+ - (?=\S+?:)", re.MULTILINE
)  # `text.DASHED` at the beginning of a line
FEW = 1  # notes on lines that are printed
SUFFIXES = (".log", ".out", ".txt", ".log.gz")


def read_logs(sources: Sequence[str], choice: Choice) -> Read:
    """Return the runs of logs, read as the output of a script is, and sentences on what was left out.

    The values of a run stand in the path of its file, or in a file beside it (`table_files.find`).

    Raises SpecError if there is no file, if one cannot be read, or if it has a step that is no whole number.
    """
    found, notes = find(sources, SUFFIXES, choice.path, choice.beside)
    runs, said = [], list[str]()
    for each in found:
        history, replaced = merged(_logged(str(each.path), unpacked(each.path), said))
        runs.append(ForeignRun(str(each.path), dict(each.values), history, str(each.path), True, replaced, each.texts))
    notes += said[:FEW] + ([f"and {len(said) - FEW} such notes on other lines"] if len(said) > FEW else [])
    return runs, notes


def _logged(path: str, content: bytes, notes: list[str]) -> list[Logged]:
    begin = DASHED_BYTES.search(content)  # what verl prints before are configs
    if begin and METRIC.search(content[: begin.start()].decode("utf-8", "replace")):
        notes.append(f"{path}: the lines before the first `step:N - ...` are left out")
    content = content[begin.start() :] if begin else content
    output = Output("", lambda what, _where, _fix: notes.append(f"{path}: {what}"), text=True)
    logged: list[Logged] = []
    try:
        for line in content.split(b"\n"):
            pieces = [piece for piece in line.split(b"\r") if piece.strip()]
            for piece in pieces:
                logged += output.read(piece, 0.0, is_bar=len(pieces) > 1)
        logged += output.end()
    except RunError as error:
        fix = "leave the file out, or import the metrics that its script wrote"
        raise SpecError(error.what.replace("the script logged", "there is"), where=path, fix=fix) from None
    return logged
