"""The command that shows an environment, and what importing the package costs."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from plat_envs.api import PICTURE_RENDERINGS, Observation, make_environment
from plat_envs.environment_errors import BadEnvironment
from plat_envs.show import Pictures, check_splits, main


@pytest.mark.parametrize(
    "task", ["sokoban", "frozenlake", "countdown", "metamathqa", "searchqa", "webshop", "deepcoder"]
)
@pytest.mark.parametrize("rendering", ["compact", "chat"])
def test_shows_a_solved_episode(capsys, task, rendering):
    assert main([task, "--seed", "3", "--split", "validation", "--rendering", rendering, "format_penalty=-0.2"]) == 0
    out = capsys.readouterr().out
    assert "several_facts:" in out and "template:" in out and '"success": true' in out


@pytest.mark.parametrize("task", ["sokoban", "frozenlake"])
@pytest.mark.parametrize("rendering", PICTURE_RENDERINGS)
def test_pictures_are_written_and_named_at_their_places(capsys, tmp_path, task, rendering):
    folder = tmp_path / "new" / "boards"
    arguments = [task, "--seed", "3", "--rendering", rendering, "--pictures", str(folder)]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    files = sorted(folder.iterdir())
    assert [file.name for file in files] == [f"{number:02}.png" for number in range(len(files))] and len(files) > 1
    assert "<image>" not in out and [out.count(str(file)) for file in files] == [1] * len(files)
    if rendering == "compact_image":
        assert f"\n{task} {files[0]} 10 <think>\n" in out
    environment = make_environment(task, {}, "train", rendering)
    with Image.open(files[0]) as picture:
        assert (np.array(picture) == environment.reset(3).images[0]).all()

    before = {file: file.read_bytes() for file in files}
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert (
        captured.err == f"error: {folder} has files already | --pictures DIR with a new folder\n" and not captured.out
    )
    assert {file: file.read_bytes() for file in folder.iterdir()} == before


def test_a_folder_that_cannot_be_made_is_one_line(capsys, tmp_path):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "inside"):
        assert main(["sokoban", "--rendering", "chat_image", "--pictures", str(folder)]) == 2
        error = capsys.readouterr().err
        assert error.startswith(f"error: {folder} cannot be made: ") and error.count("\n") == 1


def test_the_default_folder_belongs_to_pictures_alone(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["sokoban"]) == main(["countdown", "--rendering", "chat"]) == 0
    assert not list(tmp_path.iterdir())
    assert main(["sokoban", "--rendering", "compact_image"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["pictures-of-sokoban"]
    assert main(["countdown", "--rendering", "compact_image"]) == 2
    assert "error: countdown has no compact_image rendering | train.rendering=compact" in capsys.readouterr().err


def test_splits_of_a_built_in_environment_pass_the_check(capsys):
    for arguments in (["countdown"], ["countdown", "shared_pool=true"], ["frozenlake", "--rendering=compact_image"]):
        assert main([*arguments, "--check"]) == 0
        assert capsys.readouterr().out.startswith("no problem is in two splits; different problems of 2000 seeds: base")


class Overlapping:
    """Problems are numbers: those of `train` from 100 on, all others from 0 on."""

    def __init__(self, split):
        self.first = 100 if split == "train" else 0

    def reset(self, seed, noise=0):
        self.problem = str(self.first + seed)
        return self.problem

    def close(self):
        self.first = -1


def test_an_overlap_of_splits_is_named_with_its_seeds(monkeypatch):
    monkeypatch.setattr("plat_envs.show.make_environment", lambda task, options, split, _: Overlapping(split))
    with pytest.raises(BadEnvironment, match="mine: 50 of 50 problems of validation are in base too") as caught:
        check_splits("mine", {}, "chat", 50)
    assert caught.value.where == "base seed 0, validation seed 0"
    with pytest.raises(BadEnvironment, match="50 of 50 problems of heldout are in base too"):
        check_splits("mine", {"shared_pool": True}, "chat", 50)


def test_base_and_train_may_share_problems(monkeypatch):
    """They share the rows of real data."""
    starts = {"base": "validation", "train": "validation", "validation": "train", "heldout": "heldout"}

    def make(task, options, split, rendering):
        made = Overlapping(starts[split])
        made.first += 1000 * (split == "heldout")
        return made

    monkeypatch.setattr("plat_envs.show.make_environment", make)
    assert check_splits("mine", {}, "chat", 50) == dict.fromkeys(starts, 50)
    with pytest.raises(BadEnvironment, match="50 of 150 problems of validation are in base too") as caught:
        check_splits("mine", {}, "chat", 150)
    assert caught.value.where == "base seed 100, validation seed 0"


def test_bad_input_is_one_line(capsys):
    for arguments in (["sokobann"], ["sokoban", "wals=1"], ["sokoban", "walls"], ["countdown", "numbers=twice"]):
        assert main(arguments) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith("error: ") and captured.err.count("\n") == 1 and not captured.out


def test_importing_environments_imports_nothing_heavy():
    code = (
        "import sys, plat_envs.games.sokoban, plat_envs.games.frozenlake, plat_envs.questions.countdown;"
        "import plat_envs.questions.metamathqa;"
        "import plat_envs.shop.spec, plat_envs.searchqa.spec, plat_envs.policies;"
        "import plat_envs.programs.spec, plat_envs.programs.chat, plat_envs.programs.generated;"
        "heavy = {'torch', 'plat', 'gymnasium', 'datasets', 'pyarrow', 'numpy', 'pandas', 'PIL'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_folder_for_pictures_that_there_are_not_is_refused(capsys, tmp_path):
    assert main(["sokoban", "--pictures", str(tmp_path / "new")]) == 2
    assert capsys.readouterr().err.startswith("error: the rendering compact has no pictures")


@pytest.mark.parametrize(
    ("text", "picture", "says"),
    [
        ("a <image> b <image>", np.zeros((8, 8, 3), dtype=np.uint8), "2 places <image> for 1 pictures"),
        ("a <image>", "no picture", "cannot be written"),
        ("a <image>", np.zeros((8, 8, 3)), "cannot be written"),
    ],
)
def test_a_wrong_observation_of_a_plug_in_is_one_line(tmp_path, text, picture, says):
    with pytest.raises(BadEnvironment, match=says):
        Pictures(tmp_path / "new").text_of(Observation(text, (picture,)))
