"""`plat export --logbook`: a folder that can be published as it is, whole or not at all."""

from __future__ import annotations

import getpass
import json
import os
import re
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import jsonschema
import pytest

from plat.app.logbook import Cleaner, _folders, commands
from plat.spec.expansion.experiment import load_experiment
from plat.store.home import Home

SEARCH = """
title: A search
base: {trainer: script, script.command: "python t.py {lr} 0", script.metric: score}
space: {lr: {float: [1.0, 2.0]}}
trials: 2
"""


@pytest.fixture
def store(claimed_store, tmp_path, monkeypatch):
    """A folder for the logbooks of a test, while the current one has `mine.yaml` and `home`."""
    monkeypatch.chdir(claimed_store)
    return tmp_path


@pytest.fixture
def export(plat, store):
    """Export a logbook with further arguments: (exit code, stdout, stderr)."""
    command = ("export", "mine.yaml", "--home", "home", "--logbook")
    return lambda *more, out="book": plat(*command, "--out", store / out, *more)


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


class Links(HTMLParser):
    """What a page links or loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.targets: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src", "data", "action", "poster", "xlink:href") and value:
                self.targets.append(value)
            if name == "id":
                self.anchors.add(value)


def test_it_has_everything_and_links_only_into_itself(export, store, plat):
    code, out, err = export()
    assert code == 0 and " ".join(out.split()) == f"2 verdicts on 32 of 32 runs: {store}/book/index.html"
    assert "secrets are replaced in experiments/mine.yaml" in " ".join(err.split())
    found = files(store / "book")
    kinds = {name.rpartition(".")[2] for name in found}
    assert {"index.html", "README.md", "claims.json", "experiments/mine.yaml"} < set(found)
    assert {"svg", "png", "csv", "md"} < kinds and not any("explore" in name for name in found)
    text = found["index.html"].decode()
    links = Links(text)
    assert (
        len(links.anchors & {f"mine--{run}" for run in json.loads(found["claims.json"])["claims"][0]["run_ids"]}) == 32
    )
    for target in links.targets:
        assert target[1:] in links.anchors if target.startswith("#") else unquote(target) in found, target
    assert not re.search(r"<script|@import|url\((?!#)", text)
    readme = found["README.md"].decode()
    for target in re.findall(r"\]\(([^)]+)\)", readme):
        assert unquote(target) in found, target
    for page in (text.replace("&#39;", "'"), readme):
        for words in (
            "Does a larger rate help?",
            "Does it with both models?",
            "real scale, 8 seeds",
            "expected: shown",
        ):
            assert words in page
        assert "plat claims experiments/mine.yaml --check" in page and "packages" in page and "each of 2 rows" in page
        assert "once …/ and *** in experiments/mine.yaml are replaced" in page.replace("`", "")


def test_no_name_of_the_machine_and_no_secret_is_published(export, store):
    assert export()[0] == 0
    secret = (
        str(store),
        str(store.parent),
        "/claimed",
        "abcdefgh12345",
        f"/{getpass.getuser()}/",
        socket.gethostname(),
    )
    for name, content in files(store / "book").items():
        for word in secret:
            assert word.encode() not in content, (name, word)
    assert 'python …/t.py {model} {lr} {seed} --api-key ***"' in (store / "book/experiments/mine.yaml").read_text()


def test_claims_are_those_of_the_verb(export, plat, store):
    export()
    text = (store / "book/claims.json").read_text()
    assert text == plat("claims", "mine.yaml", "--home", "home", "--json")[1]
    jsonschema.validate(json.loads(text), json.loads(plat("schema", "claims")[1]))


def test_the_same_store_gives_the_same_bytes(export, store, monkeypatch):
    assert export()[0] == 0
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    code, out, _ = export("--json", out="deeper/again")
    assert code == 0 and json.loads(out)["hidden"] == ["experiments/mine.yaml"]
    assert files(store / "book") == files(store / "deeper/again")


def test_missing_runs_are_said(export, store):
    code, out, _ = export("matrix.seed=range(9)")
    assert code == 3 and "32 of 36 runs" in out
    assert "4 not run" in (store / "book/index.html").read_text()
    assert "plat sweep experiments/mine.yaml 'matrix.seed=range(9)'" in (store / "book/README.md").read_text()


def test_wrong_input_is_one_message_and_no_folder(export, store, plat):
    (store / "search.yaml").write_text(SEARCH)
    (store / "full").mkdir()
    (store / "full/mine.txt").write_text("mine")
    (store / "link").symlink_to("full")
    wrong = [
        (export("seed=77"), "there is nothing to publish"),
        (export(out="full"), "something is in the way"),
        (export(out="link"), "something is in the way"),
        (export(out="full/mine.txt"), "something is in the way"),
        (export(out="full/mine.txt/below"), "could not be written"),
        (export("--home", "nowhere"), "there is no home"),
        (export("lr=7"), ""),
        (plat("export", "--logbook", "--out", "book"), "no experiment file named"),
        (plat("export", "mine.yaml", "--logbook"), "a logbook needs a place"),
        (plat("export", store / "search.yaml", "--logbook", "--out", "book"), "a search claims nothing"),
        (plat("export", "nothing.yaml", "--logbook", "--out", "book"), "no such file"),
    ]
    for (code, out, err), text in wrong:
        assert code == 2 and not out and err.count("error: ") == 1 and text in err, err
    assert not (store / "book").exists() and files(store / "full") == {"mine.txt": b"mine"}
    (store / "empty").mkdir()
    assert export(out="empty")[0] == 0 and (store / "empty/index.html").exists()


KILLED = """
import os, signal, sys
from pathlib import Path
from plat.cli import main
write, count = Path.write_bytes, 0
def counted(path, data):
    global count
    count += "book" in str(path)
    if count == int(sys.argv[1]):
        write(path, data[: len(data) // 2])
        os.kill(os.getpid(), signal.SIGKILL)
    return write(path, data)
Path.write_bytes = counted
main(sys.argv[2:])
"""


@pytest.mark.parametrize("at", [1, 5])
def test_a_kill_while_it_is_written_leaves_no_half_folder(export, store, at):
    command = ["export", "mine.yaml", "--home", "home", "--logbook", "--out", str(store / "book")]
    done = subprocess.run([sys.executable, "-c", KILLED, str(at), *command], capture_output=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert not (store / "book").exists()
    assert export()[0] == 0 and (store / "book/claims.json").exists()


def test_a_read_only_folder_is_one_message(export, store):
    (store / "closed").mkdir(mode=0o555)
    if os.access(store / "closed", os.W_OK):
        pytest.skip("nothing is read-only for this user")
    code, _, err = export(out="closed/book")
    assert code == 2 and "the logbook could not be written" in err


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("python /data/me/run/t.py", "python …/t.py"),
        ("--data=/scratch/me/x.bin", "--data=…/x.bin"),
        ("file:/scratch/me/x.bin", "file:…/x.bin"),
        (r"C:\Users\me\t.py", "…/t.py"),
        ("postgresql://me:word@host/db", "postgresql://me:***@host/db"),
        ("/usr/bin/env python /dev/null", "/usr/bin/env python /dev/null"),
        ("https://example.org/a/b/c.html </td></tr> val/games/won 1/2/3 ../a/b", None),
        ('href="data:image/png;base64,iVBOR/a/b\n/c/d/e="', None),
    ],
)
def test_folders_and_secrets_are_replaced_and_nothing_else(text, clean, tmp_path):
    assert Cleaner(Home(tmp_path)).text(text) == (text if clean is None else clean)


def test_commands_with_imports_plug_ins_and_overrides(claimed_store):
    experiment = load_experiment(claimed_store / "mine.yaml", ["lr=0.1"])
    text = "# By others.\n#   plat import log runs --path '{lr}.log' \\\n#     --axes lr\n# plat imports\ntitle: x\n"
    first = ["plat import log runs --path '{lr}.log' --axes lr", "plat sweep experiments/mine.yaml lr=0.1"]
    assert commands(experiment, text)[:2] == first
    other = replace(experiment, runs=[replace(run, trainer="mine:Trainer") for run in experiment.runs], claims=[])
    words = "experiments/mine.yaml lr=0.1 --allow-import"
    assert commands(other, "") == [f"plat sweep {words}", f"plat report {words}"]


def test_each_file_has_a_folder_of_its_own(claimed_store):
    experiment = load_experiment(claimed_store / "mine.yaml")
    names = ("mine", "a b", "a-b", "README.md", "experiments", ".x")
    found = _folders([replace(experiment, name=name) for name in names])
    assert found[:3] == ["mine", "a-b", "a-b-2"] and found[5] == "x"
    assert len(set(found)) == len(names) and not {"README.md", "experiments"} & set(found)


def test_a_figure_with_a_path_in_it_is_there_as_svg_alone(tmp_path):
    cleaner = Cleaner(Home(tmp_path))
    clean = cleaner(
        {"a/x.svg": b"<svg><text>/data/me/x.bin</text></svg>", "a/x.png": b"1", "a/x.pdf": b"2", "a/y.png": b"3"}
    )
    assert clean == {"a/x.svg": "<svg><text>…/x.bin</text></svg>".encode(), "a/y.png": b"3"}
    assert list(cleaner.changed) == ["a/x.svg"]
