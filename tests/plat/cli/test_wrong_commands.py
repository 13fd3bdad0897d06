"""Wrong commands: one clear message with its place and a fix, exit code 2, no traceback, and no home is made."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from cli_files import GOOD
from search_files import TOY_SEARCH

ROOT = Path(__file__).parents[3]
# (what is typed, what the message must say)
COMMANDS = [
    ("swep {file}", "Did you mean 'sweep'?"),
    ("--verison", "--version"),
    ("plan {file} --jsn", "--json"),
    ("plan {file} -j", "plat plan --help"),
    ("plan {file} PLAN", "no such file"),
    ("plan {folder}", "name a .yaml file in it"),
    ("plan {text}", "an experiment file must be a mapping"),
    ("plan {binary}", "save it as UTF-8"),
    ("plan {empty}", "the file is empty"),
    ("plan {file} =5", "an override needs `key=value`"),
    ("plan {file} seed=", "'' is not a whole number"),
    ("plan {file} seeds=3", "several: 'matrix.seed=range(3)'"),
    ("plan {file} verl.workers=2", "add trainer=verl"),
    ("plan {file} trainer=verl verl.wrokers=2", "did you mean 'verl.workers'?"),
    ("options verl", "plat options --trainer verl"),
    ("plan {file} --seeds 3", "'matrix.seed=range(5)'"),
    ("plan {file} seed=one", "'one' is not a whole number"),
    ("plan {file} filter.eps=lots", "'lots' is not a number"),
    ("plan {file} matrix.seeds=[0]", "did you mean 'seed'?"),
    ("plan {file} matrix.seed=range(3", "write range(STOP)"),
    ("plan {file} train.lrr=1,2", "did you mean 'train.lr'?"),
    ("plan {file} trainer=embeded", "did you mean 'embedded'?"),
    ("plan {file} scale=huge", "options: gpu, laptop, paper, smoke"),
    ("plan {file} task=[sokoban", "not a valid override"),
    ("sweep", "no experiment file named"),
    ("sweep {file} --jobs two", "'two' is not a whole number"),
    ("sweep {file} --on slrum", "did you mean 'slurm'?"),
    ("sweep {file} --on local --detach", "leave --detach out"),
    ("sweep {file} cluster=lab", "add --on slurm"),
    ("sweep {file} cluster.gpus=1.5", "two runs share one"),
    ("sweep {file} --on slurm cluster=nosuch", "no cluster profile 'nosuch'"),
    ("sweep {file} --on slurm cluster.slurm_partiton=x", "did you mean 'slurm_partition'?"),
    ("sweep {file} --store mysqll://host/db", "did you mean 'mysql'?"),
    ("sweep {file} --notify", "requires an argument"),
    ("sweep {search}", "plat tune {search}"),
    ("report {search}", "plat tune {search}"),
    ("tune {file}", "plat sweep {file}"),
    ("tune {search} {search}", "takes one search file"),
    ("tune {search} trials=none", "a whole number above 0"),
    ("tune {search} sampler=tpee", "did you mean 'tpe'?"),
    ("tune {search} --on slurm cluster=nosuch", "no cluster profile 'nosuch'"),
    ("run train.iterations=-5", "give at least 0"),
    ("run task.name=sokobann", "did you mean 'sokoban'?"),
    ("eval", "plat eval --help"),
    ("status {folder}/nosuch.yaml", "no such file"),
    ("status --al", "--all"),
    ("status --home {folder}/hmoe", "there is no home here"),
    ("runs --home {folder}/hmoe", "there is no home here"),
    ("watch --home {folder}", "there is no home here"),
    ("watch --every 0", "it must be at least 0.1"),
    ("runs --where success>high", "for example success>0.5"),
    ("runs --where =1", "--where takes KEY=VALUE"),
    ("runs --csv --json", "leave one of them out"),
    ("runs --columns ,", "--columns names no column"),
    ("diff a b --out x.gif", ".png, .svg, .pdf"),
    ("diff a b --out {folder}/none/x.png", "make it first"),
    ("logs abc --attempt zero", "'zero' is not a whole number"),
    ("cancel {file} --prune --where seed=0", "leave --where out"),
    ("retry --where seed=0 --jobs 0", "it must be at least 1"),
    ("sync", "there is no home directory here"),
    ("report {file}", "there is no store yet"),
    ("rm nothing-12345678 --yes", "no run 'nothing-12345678'"),
    ("gc --dry-runn", "--dry-run"),
    ("export {file}", "--out DIR"),
    ("import {folder}", "it has no manifest.json"),
    ("options filter.epss", "did you mean 'filter.eps'?"),
    ("ui --store foo", "name sqlite:///FILE.db"),
    ("ui --store sqlite:///{folder}/none.db", "there is no store yet"),
    ("run device=gpu", "did you mean 'cuda'?"),
    ("run dtype=bf16", "did you mean 'bfloat16'?"),
    ("run task.size=5", "if it is an option of the task itself, write task.env.size"),
    ("ui --port http", "'http' is not a whole number"),
    ("doctor extra", "unexpected extra argument"),
    ("base lst", "Did you mean 'list'?"),
    ("base build model=nosuch", "options: llama3.2-3b"),
    ("run --task=sokoban", "options of runs have no dashes: task=sokoban"),
    ("run --algorithm grpo", "options of runs have no dashes: algorithm=grpo"),
    ("run task sokoban", "for example task=VALUE"),
    ("run task:sokoban", "for example task=sokoban"),
    ("run task==sokoban", "write task=sokoban"),
    ("plan {file} train.lr==1e-3", "write train.lr=1e-3"),
    ("plan {file} matrix.task=[frozenlake,sokoban", "as many ] as ["),
    ("plan {file} title=Mine", "change title in the file"),
    ("plan {file} exclude=[]", "change exclude in the file"),
    ("plan {file} matrix=3", "matrix.AXIS=[...]"),
    ("plan {file} --on slurm", "--on is an option of `plat sweep`"),
    ("why abc --follow", "--follow is an option of `plat logs`"),
    ("--home {folder} status", "plat status --home {folder}"),
    ("help", "plat --help"),
    ("help sweep", "plat sweep --help"),
    ("why {file}", "`plat runs {file}`"),
    ("logs {file}", "`plat runs {file}`"),
    ("run trainer=plat_toy:Toy --store nosuch://x", "sqlite"),
    ("tune {search} --store nosuch://x", "sqlite"),
    ("retry --where seed=0 --store nosuch://x", "sqlite"),
    ("base verify --margin 2", "it must be from 0 to 1"),
]


@pytest.fixture
def files(tmp_path):
    """A good experiment file and search file, and files and a folder that are neither."""
    names = {name: tmp_path / f"{name}.yaml" for name in ("file", "search", "text", "binary", "empty")}
    names["file"].write_text(GOOD)
    names["search"].write_text(TOY_SEARCH + "trials: 2\n")
    names["text"].write_text("just words\n")
    names["binary"].write_bytes(b"\x00\xff\x01")
    names["empty"].write_text("")
    names["folder"] = tmp_path / "folder"
    names["folder"].mkdir()
    return names


@pytest.mark.parametrize(("typed", "hint"), COMMANDS, ids=[typed for typed, _ in COMMANDS])
def test_a_wrong_command_is_explained_and_nothing_is_made(plat, home, files, typed, hint, monkeypatch):
    monkeypatch.chdir(ROOT)
    code, out, err = plat(*(word.format(**files) for word in typed.split()))
    if "--json" in typed.split():
        error = json.loads(out)["error"]
        assert code == 2 and not err and error["what"] and error["where"]
        assert hint in error["fix"] and not home.exists()
        return
    assert (code, out) == (2, ""), err
    lines = err.splitlines()
    assert lines[0].startswith("error: ") and lines[-1].startswith("  fix: ") and len(lines) <= 3
    assert lines[1].startswith("   at: "), err
    assert hint.format(**files) in err
    assert not home.exists()


def test_a_command_line_in_quotes_is_taken_apart(plat, files):
    assert f"plat sweep {files['file']} seed=1" in plat(f"sweep {files['file']}", "seed=1")[2]
    assert "write seed=1" in plat("plan", files["file"], "seed = 1")[2]


def test_h_is_help_and_two_signs_are_one(plat, executed):
    assert plat("-h")[1] == plat("--help")[1] and plat("why", "-h")[1] == plat("why", "--help")[1]
    run = executed()
    assert run.id[:8] in plat("runs", "--where", "state==done")[1]
    assert "--columns run,state" in plat("runs", "--columns", "run state")[2]
    assert "is one" in plat("diff", run.id, run.id)[2]
