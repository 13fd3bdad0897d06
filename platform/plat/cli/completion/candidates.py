"""Find what can stand at the end of a command line: verbs, options, files, runs and keys."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from plat.cli.completion.declared import HELP, Command, command, groups, subcommands, verbs

OF_PLAT = {"--version": "Print the version and leave.", **HELP}
SHORT = 8  # characters of a run's id, as lists show it
MOST = 2000  # runs whose meta.json is read

Candidates = dict[str, str]  # what can be typed -> its meaning


def candidates(words: Sequence[str], unfinished: str) -> Candidates:
    """Return what can stand in place of the unfinished word, which may be "".

    words   those between `plat` and the unfinished one
    """
    rest = list(words)
    if not rest or rest[0].startswith("-"):
        return _beginning(unfinished, {**verbs(), **OF_PLAT} if unfinished.startswith("-") else verbs())
    verb = rest.pop(0)
    if verb not in verbs():
        return {}
    if verb not in groups():
        return _of_command(command(verb), rest, unfinished)
    functions = subcommands(verb)
    if rest and rest[0] in functions:
        return _of_command(command(verb, functions[rest[0]]), rest[1:], unfinished)
    return {} if rest else _beginning(unfinished, dict.fromkeys(functions, ""))


def _of_command(known: Command, words: list[str], unfinished: str) -> Candidates:
    before = words[-1] if words else ""
    if before in known.takes:
        metavar = known.takes[before]
        return {} if metavar == "KEY" else _of_metavar(metavar, words, unfinished)  # of a metric, or of a column
    if unfinished.startswith("-"):
        option, equals, value = unfinished.partition("=")
        if not equals:
            return _beginning(unfinished, known.options)
        found = _of_metavar(known.takes.get(option, ""), words, value)
        return {f"{option}={name}": says for name, says in found.items()}
    return _of_metavar(" ".join(known.arguments), words, unfinished)


def _of_metavar(metavar: str, words: list[str], unfinished: str) -> Candidates:
    """Return the values of an argument or option that its help text calls so, such as `[RUN | SPEC | KEY=VALUE]...`."""
    kinds = re.findall(r"[A-Z]+", metavar)
    if not kinds:
        return _beginning(unfinished, dict.fromkeys(re.findall(r"[a-z]+", metavar), ""))
    found: Candidates = {}
    if {"DIR", "FILE", "SCRIPT", "CHECKPOINT", "SOURCE"} & {*kinds}:
        found |= dict.fromkeys(_paths(unfinished), "")
    if "SPEC" in kinds:
        found |= dict.fromkeys(_paths(unfinished, (".yaml", ".yml")), "")
    if "RUN" in kinds:
        found |= dict.fromkeys(_runs(words, unfinished), "")
    if "KEY" in kinds and unfinished and not found and not {"=", "/"} & {*unfinished}:
        from plat.cli.completion.keys import keys

        end = "=" if "VALUE" in kinds else ""
        found |= dict.fromkeys((key + end for key in keys(words, unfinished)), "")
    return found


def _beginning(unfinished: str, known: Candidates) -> Candidates:
    return {name: says for name, says in known.items() if name.startswith(unfinished)}


def _paths(unfinished: str, ends: tuple[str, ...] = ("",)) -> Iterator[str]:
    """Yield the folders, with a slash, and the files with one of these ends that begin so."""
    folder, slash, beginning = unfinished.rpartition("/")
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder + slash) or "."), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(beginning) and (beginning.startswith(".") or not entry.name.startswith(".")):
            if entry.is_dir():
                yield f"{folder}{slash}{entry.name}/"
            elif entry.name.endswith(ends):
                yield f"{folder}{slash}{entry.name}"


def _runs(words: list[str], unfinished: str) -> list[str]:
    """Return the names of runs of the home that begin so, and the short ids, if something was typed."""
    from plat.plain_files import read_json_value
    from plat.store.home import Home
    from plat.store.index.database import read_rows

    given = [after for before, after in itertools.pairwise(words) if before == "--home"]
    given += [word.removeprefix("--home=") for word in words if word.startswith("--home=")]
    home = Home.find(given[0] if given else None)
    ids = home.run_ids()
    known = {run_id: str(row[2]) for run_id, row in read_rows(home, "metas").items()} if len(ids) > 100 else {}
    names = []
    for run_id in ids[:MOST]:
        try:
            name = known.get(run_id) or read_json_value(Path(home.run_folder(run_id), "meta.json"))["name"]
        except (OSError, ValueError, KeyError, TypeError):
            name = run_id
        names.append(str(name))
    short = [run_id[:SHORT] for run_id in ids] if unfinished else []
    return [name for name in [*names, *short] if name.startswith(unfinished)]
