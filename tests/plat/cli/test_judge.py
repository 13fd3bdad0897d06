"""`plat judge`: two versions of a script, pairs of runs until one is better, and exit codes for programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from plat.app.judging import judging
from plat.app.judging.judging import Judgement

SCRIPT = """
import argparse, random
options = argparse.ArgumentParser()
options.add_argument("--seed", type=int, default=0)
asked = options.parse_args()
noise = random.Random(asked.seed)
for step in range(1, 4):
    print(f"step {step}: val_loss: {LEVEL + noise.uniform(-1, 1) + OWN:.4f}")
"""
OWN = "0.1 * random.Random(f'{asked.seed} {LEVEL}').uniform(-1, 1)"


def script(level: float, own: str = OWN) -> str:
    return SCRIPT.replace("OWN", own).replace("LEVEL", str(level))


def git(folder: Path, *words: str) -> None:
    name = ["-c", "user.email=a@b.c", "-c", "user.name=A", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *name, *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def repository(tmp_path, home, empty_store, monkeypatch) -> Path:
    """A repository with one commit, whose loss is about 5; the home is outside, with an empty store."""
    home.mkdir()
    (home / "mlflow.db").write_bytes(Path(empty_store).read_bytes())
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(script(5.0))
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    monkeypatch.chdir(folder)
    return folder


def runs_of(home: Path) -> int:
    return len(list(home.glob("runs/*/*/result.json")))


JUDGE = ("judge", "python train.py", "--metric", "val_loss", "--lower", "--against")


def test_an_edit_is_better_than_the_commit(plat, repository, home):
    (repository / "train.py").write_text(script(4.0))
    code, out, err = plat(*JUDGE, "HEAD", "--margin", "0.5")
    assert code == 0, err
    line = out.splitlines()[-1]
    assert line.startswith("better: val_loss ") and "8 pairs" in line and 'a false "better": 2.5 %' in line
    assert runs_of(home) == 16
    code, out, _ = plat(*JUDGE, "HEAD", "--margin", "0.5", "--json")
    found = json.loads(out)
    assert code == 0 == found["exit_code"] and found["verdict"] == "better" and runs_of(home) == 16
    assert found["interval"][0] < found["difference"] < found["interval"][1] < 0 and found["pairs"] == 8
    assert found["new"] == pytest.approx(found["old"] + found["difference"])
    git(repository, "commit", "-qam", "two")
    assert plat(*JUDGE, "HEAD~1..HEAD", "--margin", "0.5")[0] == 0
    code, out, _ = plat(*JUDGE, "HEAD..HEAD~1", "--margin", "0.5")
    assert code == 10 and out.splitlines()[-1].startswith("worse: ")


def test_no_difference_and_a_budget(plat, repository, home):
    (repository / "train.py").write_text(script(5.001))
    code, out, _ = plat(*JUDGE, "HEAD", "--margin", "0.5", "-q")
    assert code in (11, 12) and len(out.splitlines()) == 1
    assert "not better by 0.5" in out
    (repository / "slow.py").write_text("import time; time.sleep(0.3)\n" + script(5.0))
    code, out, _ = plat("judge", "python slow.py", *JUDGE[2:], "python train.py", "--budget", "1s", "-j", "1", "-q")
    assert code == 12 and "the budget of 1.0 s is spent" in out


def test_a_folder_another_command_and_ignored_files(plat, repository, home, tmp_path):
    (repository / ".gitignore").write_text("data/\n")
    git(repository, "add", "-A")
    reads = "print(open('data/level').read())\n"
    (repository / "train.py").write_text(reads + script(5.0))
    git(repository, "commit", "-qam", "reads data")
    (repository / "data").mkdir()
    (repository / "data" / "level").write_text("x")
    (repository / "train.py").write_text(reads + script(4.0))
    assert plat(*JUDGE, "HEAD", "--no-link")[0] == 3  # the old version has no data
    code, out, err = plat(*JUDGE, "HEAD")
    assert code == 0, out + err
    other = tmp_path / "other"
    other.mkdir()
    (other / "train.py").write_text(script(7.0))
    assert plat(*JUDGE, str(other))[0] == 0
    (repository / "old.py").write_text(script(2.0))
    assert plat(*JUDGE, "python old.py")[0] == 10


@pytest.mark.parametrize(
    ("change", "options", "said"),
    [
        ("", ["HEAD"], "are the same"),
        (script(4.0), ["HEAD~7"], "'HEAD~7' is no folder, no commit of a repository here, and no command"),
        (script(4.0), ["HEAD", "--most", "5"], "5 pairs cannot decide"),
        (script(4.0), ["HEAD", "--margin", "-1"], "is not the size of an improvement"),
        (script(4.0), ["HEAD", "--budget", "30"], "'30' is no time"),
    ],
)
def test_bad_input_is_one_message_and_no_run(plat, repository, home, change, options, said):
    if change:
        (repository / "train.py").write_text(change)
    code, out, err = plat(*JUDGE, *options)
    assert code == 2 and said in err and not out and len(err.splitlines()) <= 3
    assert runs_of(home) == 0


def test_what_the_first_pairs_show(plat, repository, home):
    (repository / "train.py").write_text(script(4.0))
    code, _, err = plat("judge", "python train.py", "--metric", "loss", "--lower", "--against", "HEAD", "-q")
    assert code == 2 and "neither version prints loss" in err and "val_loss" in err and runs_of(home) == 4
    assert plat(*JUDGE, "HEAD", "-q")[0] == 0  # another metric: another question, with fresh seeds
    (repository / "train.py").write_text("raise SystemExit('no')\n")
    code, out, _ = plat(*JUDGE, "HEAD", "-q")
    assert code == 13 and out.startswith("fails: the old version runs, the new one does not")
    (repository / "fixed.py").write_text("print('step 1: val_loss: 4.0')\n")
    (repository / "fixed2.py").write_text("print('step 1: val_loss: 5.0')\n")
    for _ in range(5):  # a repeated call is refused again
        code, _, err = plat("judge", "python fixed.py", *JUDGE[2:], "python fixed2.py", "-q")
        assert code == 2 and "the seed changes nothing: val_loss of the old version is equal for 4 seeds" in err
    code, _, err = plat("judge", "python fixed.py", *JUDGE[2:], "HEAD", "-q")
    assert code == 2 and "fixed.py" in err  # which the commit does not have
    (repository / "seeded.py").write_text(script(5.0))
    code, _, err = plat("judge", "python fixed.py", *JUDGE[2:], "python seeded.py", "-q")
    assert code == 2 and "the seed changes nothing: val_loss of the new version" in err


def test_judgements_of_a_study_have_fresh_seeds_and_their_own_errors(plat, repository, home):
    errors, files = [], []
    for level in (4.0, 3.9, 4.1):
        (repository / "train.py").write_text(script(level))
        code, out, err = plat(*JUDGE, "HEAD", "--study", "night", "--json")
        assert code == 0, err
        found = json.loads(out)
        errors.append(found["error"])
        files.append(Path(found["file"]).read_text())
    assert errors[0] < errors[1] < errors[2] < 0.025  # each discovery raises the levels after it
    assert ["- 0\n" in files[0], "- 20\n" in files[1], "- 40\n" in files[2]] == [True] * 3
    code, out, _ = plat(*JUDGE, "HEAD", "--margin", "0.5", "--json")  # no question takes runs that were seen
    assert code == 0 and "- 60\n" in Path(json.loads(out)["file"]).read_text()
    assert os.listdir(home / "versions") and len(list((home / "judgements").glob("*.yaml"))) == 4


def test_files_outside_of_both_versions_are_named(plat, repository, home, tmp_path):
    shared = tmp_path / "shared"
    (shared / "package").mkdir(parents=True)
    (shared / "package" / "__init__.py").write_text("LEVEL = 0")
    (shared / "data.txt").write_text("1")
    (repository / "own.txt").write_text("1")
    reads = f"""
import os, sys, tempfile, threading
sys.path.insert(0, {str(shared)!r})
import package
open({str(shared / "data.txt")!r}).read(), open("own.txt").read(), open(sys.argv[0] + ".log", "w").close()
here = os.getcwd()
with tempfile.TemporaryDirectory() as folder:  # the folder of this process is removed
    os.mkdir(folder + "/a"), os.mkdir(folder + "/a/b"), os.chdir(folder + "/a")
os.chdir(here)
threading.Thread(target=lambda: [open(os.devnull).close() for _ in range(10**7)], daemon=True).start()
"""
    (repository / "train.py").write_text(script(5.0) + reads)
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "reads")
    (repository / "train.py").write_text(script(4.0) + reads)
    code, out, err = plat(*JUDGE, "HEAD", "--json")
    assert code == 0, err
    expected = [str(shared / "data.txt"), str(shared / "package" / "__init__.py")]
    assert json.loads(out)["reads_outside"] == expected
    line = " ".join(plat(*JUDGE, "HEAD")[1].split())  # again, without a run
    assert "8 pairs, done before; a false" in line
    assert f"shared by both: {expected[0]}, {expected[1]}" in line
    assert "PLAT_READS" not in os.environ


PROGRAM = """#include <stdio.h>
#include <stdlib.h>
#include "level.h"
int main(int count, char **words) {
    srand(atoi(words[1]));
    printf("loss: %f\\n", LEVEL + rand() / (double)RAND_MAX);
}
"""


def test_the_headers_of_a_compiled_program_count(plat, repository, home):
    if not (shutil.which("cc") and shutil.which("make")):
        pytest.skip("needs a C compiler and make")
    (repository / "main.c").write_text(PROGRAM)
    (repository / "Makefile").write_text("$(PLAT_RUN_DIR)/main: main.c\n\tcc -o $@ main.c\n")
    (repository / "level.h").write_text("#define LEVEL 5.0\n")
    git(repository, "add", "-A")
    git(repository, "commit", "-qm", "c")
    (repository / "level.h").write_text("#define LEVEL 1.0\n")
    build = "sh -c 'make -s && $PLAT_RUN_DIR/main {seed} && touch left_$PLAT_SEED.json'"
    command = ("judge", build, "--metric", "loss", "--lower", "--against", "HEAD", "--json")
    code, out, err = plat(*command)
    assert code == 0, err
    better = json.loads(out)
    (repository / "level.h").write_text("#define LEVEL 9.0\n")
    code, out, _ = plat(*command)
    worse = json.loads(out)
    assert (code, better["verdict"], worse["verdict"]) == (10, "better", "worse") and worse["file"] != better["file"]
    assert better["new"] < 2.1 and worse["new"] > 8.9
    again = json.loads(plat(*command)[1])  # with files that runs have left, which are no code
    assert again["file"] == worse["file"]
    (repository / "Makefile").write_text("$(PLAT_RUN_DIR)/main: main.c\n\tcc -DLEVEL=1.0 -o $@ main.c\n")
    (repository / "main.c").write_text(PROGRAM.replace('#include "level.h"', ""))
    assert json.loads(plat(*command)[1])["file"] not in (better["file"], worse["file"])


def test_the_three_numbers_of_the_line_agree_and_small_ones_keep_their_digits():
    def line(old, new, low, high):
        means = {"old": old, "new": new}
        return Judgement("better", "m", means, new - old, low, high, 8, 1.0, 0.025, "", "f").line

    assert "m 105.5 → 75.0, −30.5 [−113.1, +52.0]" in line(105.51, 75.02, -113.1, 52.0)
    assert "m 0.00000576 → 0.00000013, −0.00000563 [" in line(5.762e-6, 1.334e-7, -1.09e-5, -3e-7)
    assert "m 0.500 → 0.400, −0.100 [−0.130, −0.070]" in line(0.5, 0.4, -0.13, -0.07)


def test_a_pipe_in_the_old_command_is_explained(plat, repository):
    code, _, err = plat(*JUDGE, "python train.py | head -3")
    assert code == 2 and "the command has '|', and no shell reads it" in err and "bash -c" in err


def test_pairs_that_wait_for_the_next_look_are_said(plat, repository, monkeypatch):
    """The budget ends after ten pairs. The verdict uses the first eight, because the next look is at twelve."""
    (repository / "train.py").write_text(script(4.99))
    clock = iter([0.0, *([1.0] * 8), *([100.0] * 100)])  # the beginning, then before each batch of runs
    monkeypatch.setattr(judging, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    code, out, err = plat(*JUDGE, "HEAD", "--budget", "50s", "--jobs", "1")
    line = " ".join(out.split())
    assert code == 12 and "8 pairs" in line and "10 pairs are done, and the next look is at 12" in line, err
