"""Find out about a script without executing it: its command, its source, and how to ask it for its options."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from plat.errors import SpecError, os_errors_as
from plat.plain_files import open_regular
from plat.trainer.script.config import ScriptConfig, ScriptRunConfig
from plat.trainer.script.source_files import source_files

LARGEST = 4 << 20  # bytes of a file that are read
INTERPRETERS = {".sh": "bash", ".bash": "bash", ".R": "Rscript", ".r": "Rscript", ".jl": "julia"}
PYTHONS = ("python", "python3")
OWN = re.compile(r"\{(seed|plat\.\w+)\}")  # placeholders that plat itself fills in
PARSERS = (
    "argparse", "click", "typer", "tyro", "simple_parsing", "jsonargparse", "tap", "configargparse", "cyclopts",
    "HfArgumentParser", "LightningCLI",
)  # fmt: skip
_PARSES = re.compile(rf"^\s*(?:import|from)\s.*\b(?:{'|'.join(PARSERS)})\b", re.MULTILINE)
_HYDRA = re.compile(r"\bhydra\.main\b")
_IMPORTS_HYDRA = re.compile(r"^\s*from\s+hydra\s+import\s.*\bmain\b", re.MULTILINE)
_LOGS = re.compile(r"\bjson\b|\bplat\.log\b|\bSummaryWriter\b|\bcsv\b")
_WRITES_EVENTS = re.compile(r"\bSummaryWriter\b")


@dataclass(frozen=True)
class UserScript:
    """A script of the user.

    sources  its text, and the texts of the Python files that it imports from its folder
    given    the words that follow it in the command: `fit --lr 0.1`
    """

    path: Path
    sources: tuple[str, ...]
    given: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        return self.path.parent

    @property
    def words(self) -> list[str]:
        """The words of its command, in its folder."""
        name = self.path.name
        if self.path.suffix == ".py":
            return ["python", name, *self.given]
        program = [f"./{name}"] if os.access(self.path, os.X_OK) else [INTERPRETERS[self.path.suffix], name]
        return [*program, *self.given]

    @property
    def is_python(self) -> bool:
        return self.path.suffix == ".py"

    @property
    def is_hydra(self) -> bool:
        return self._has(_HYDRA) or self._has(_IMPORTS_HYDRA)

    @property
    def question(self) -> list[str] | None:
        """The words that make it print its options; None if it may not know them, and would start to work."""
        words = [OWN.sub("0", word) for word in self.words]
        if self.is_python and self.is_hydra:
            return [*words, "--cfg", "job"]
        if self._has(_PARSES) if self.is_python else any("--help" in source for source in self.sources):
            return [*words, "--help"]
        return None

    @property
    def logs(self) -> bool:
        """Whether something in its source looks as if it prints or writes metrics that plat reads."""
        return not self.is_python or self._has(_LOGS)

    @property
    def writes_events(self) -> bool:
        """Whether it writes event files of TensorBoard."""
        return self._has(_WRITES_EVENTS)

    @property
    def uses_mlflow(self) -> bool:
        return any("mlflow" in source for source in self.sources)

    @property
    def uses_run_dir(self) -> bool:
        return any("PLAT_RUN_DIR" in source for source in self.sources)

    def _has(self, pattern: re.Pattern[str]) -> bool:
        return any(pattern.search(source) for source in self.sources)


def user_script(name: str, given: Sequence[str] = ()) -> UserScript:
    """Return the script at a path, and the words after it; `python` before it is left out.

    Raises SpecError if there is no such file, or it cannot be read or executed.
    """
    if name in PYTHONS and given:
        name, given = given[0], given[1:]
    path = Path(name).absolute()
    if not path.is_file():
        what = "this is a folder, not a script" if path.is_dir() else "there is no such file"
        raise SpecError(what, where=str(path), fix="name the script that trains: plat init train.py")
    if not str(path).isprintable():
        raise SpecError("the script's path has characters that are not printable", where=ascii(name), fix="rename it")
    if path.suffix == ".ipynb":
        words = f"papermill --log-output {shlex.quote(name)} {{plat.run_dir}}/out.ipynb -p lr {{lr}}"
        fix = f"script.command: {words}, with script.metrics: text for what its cells print"
        raise SpecError("papermill can run this notebook", where=str(path), fix=fix)
    if path.suffix in (".yaml", ".yml"):
        raise SpecError("this is no script", where=str(path), fix=f"`plat sweep {name}` executes an experiment file")
    if path.suffix not in (".py", *INTERPRETERS) and not os.access(path, os.X_OK):
        raise SpecError("this file is not executable", where=str(path), fix=f"chmod +x {shlex.quote(name)}")
    files = [path.name]
    if path.suffix == ".py":
        config = ScriptRunConfig(script=ScriptConfig(command=["python", path.name], folder=str(path.parent)))
        files += [file for file in source_files(config) if file.endswith(".py") and (path.parent / file).is_file()]
    with os_errors_as(SpecError, "cannot read the script", path, "make it readable"):
        return UserScript(path, tuple(_text(path.parent / file) for file in dict.fromkeys(files)), tuple(given))


def _text(path: Path) -> str:
    with open_regular(path) as file:
        return file.read(LARGEST).decode("utf-8", "replace")
