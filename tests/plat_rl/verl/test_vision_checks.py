"""What cannot work with pictures is said before training: processors, models and limits that do not fit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny_vision import make_checkpoint, picture

from plat.errors import SpecError
from plat.spec.expansion.experiment import build_run, load_experiments
from plat_rl.verl.settings.models import checkpoint_size, model_size, workers
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.spec import VerlTrainer
from plat_rl.verl.vision import fitting
from plat_rl.verl.vision.processor import load_processor

Make = Callable[..., VerlRunConfig]
PAPER = ("trainer=verl", "scale=paper", "task=sokoban", "algorithm=grpo", "train.pictures=true")
VL = "model=qwen2.5-vl-3b"


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def folder(original: Path, tmp_path: Path) -> Path:
    """The small files of a checkpoint, to be damaged."""
    for name in ("config.json", "preprocessor_config.json", "tokenizer.json"):
        (tmp_path / name).write_bytes((original / name).read_bytes())
    return tmp_path


def change(file: Path, **values: Any) -> None:
    file.write_text(json.dumps({**json.loads(file.read_text()), **values}))


def test_a_checkpoint_that_fits_is_read_as_its_processor_does(folder: Path, original: Path) -> None:
    sizes = fitting.image_sizes(str(folder))
    assert sizes == (8, 1, 64, 1_000_000)
    processor = load_processor(str(original))
    assert processor is not None
    for height, width in ((16, 24), (48, 48), (50, 45), (7, 9), (2000, 3000)):
        image = picture(0, height, width)
        pixels, grids = processor.features([image])
        assert sizes.tokens(height, width) == processor.image_tokens(image) == grids.prod().item() == len(pixels)
        assert processor.feature_bytes([image]) == pixels.numel() * 4


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"patch_size": 14}, "patch_size is 14, and patch_size of the model's vision_config is 8"),
        ({"merge_size": 2}, "merge_size is 2, and spatial_merge_size"),
        ({"temporal_patch_size": 2}, "temporal_patch_size is 2, and temporal_patch_size"),
    ],
)
def test_a_processor_of_another_model_is_refused(folder: Path, values: dict[str, int], message: str) -> None:
    change(folder / "preprocessor_config.json", **values)
    with pytest.raises(SpecError, match=message) as caught:
        fitting.image_sizes(str(folder))
    assert caught.value.where.endswith("preprocessor_config.json") and next(iter(values)) in str(caught.value.fix)


def test_a_model_that_sees_nothing_or_has_no_processor_is_refused(folder: Path) -> None:
    (folder / "preprocessor_config.json").unlink()
    with pytest.raises(SpecError, match=r"preprocessor_config.json cannot be read"):
        fitting.image_sizes(str(folder))
    change(folder / "config.json", model_type="qwen2")
    with pytest.raises(SpecError, match="sees no pictures: its model_type is qwen2"):
        fitting.image_sizes(str(folder))


def test_missing_tokens_of_pictures_are_named(folder: Path) -> None:
    change(folder / "config.json", image_token_id=9999)
    with pytest.raises(SpecError, match="no token for image_token_id: 9999 is no token"):
        fitting.image_sizes(str(folder))
    change(folder / "config.json", image_token_id=None)
    fitting.image_sizes.cache_clear()
    with pytest.raises(SpecError, match="no token for image_token_id: has none"):
        fitting.image_sizes(str(folder))


def test_limits_that_cannot_hold_a_picture_are_refused_with_the_fix(make_config: Make, original: Path) -> None:
    few = ("task=sokoban", f"model.path={original}", "train.rendering=compact_image", "verl.prompt_tokens=37",
           "verl.observation_tokens=30")  # fmt: skip
    with pytest.raises(SpecError, match=r"48 x 48 pixels\) are 38 tokens, and verl.prompt_tokens is 37 and") as caught:
        VerlTrainer().check(make_config(*few))
    assert "verl.prompt_tokens=76 verl.observation_tokens=76" in str(caught.value.fix)
    with pytest.raises(SpecError, match=r"38 tokens, and verl.prompt_tokens is 37$"):
        VerlTrainer().check(make_config(*few, "train.context=current"))
    enough = ("verl.prompt_tokens=38", "verl.observation_tokens=38")
    fitting.check_vision(make_config(*few[:3], *enough))
    fitting.check_vision(make_config("task=sokoban", "verl.prompt_tokens=1"))


def test_the_papers_scale_composes_with_verls_classes() -> None:
    run = build_run([*PAPER, VL])
    assert run.fingerprint["base"] == {"hub": "Qwen/Qwen2.5-VL-3B-Instruct"} and run.resources["gpus"] == 2
    with pytest.raises(SpecError, match=r"Qwen2.5-3B sees no pictures"):
        build_run(list(PAPER))


def test_a_smoke_run_with_pictures_starts_from_a_shipped_base(make_config: Make) -> None:
    config = make_config("task=sokoban", "model=qwen2.5-vl-3b", "train.pictures=true")
    assert config.train.rendering == "compact_image" and config.train.pictures
    assert VerlTrainer().preparation(config) is None, "it travels with the package"
    fitting.check_vision(config)


def test_the_papers_boards_fit_the_limits_and_verl_takes_the_settings() -> None:
    from plat.spec.expansion.experiment import config_object

    trainer = VerlTrainer()
    config = config_object(build_run([*PAPER, VL]), trainer)
    trainer.check(config)
    assert fitting.OF_THE_HUB.tokens(168, 168) == 36 and fitting.OF_THE_HUB.tokens(96, 96) == 9
    assert model_size(config).billions == 3.755
    with pytest.raises(SpecError, match="38 tokens"):
        trainer.check(config_object(build_run([*PAPER, VL, "verl.observation_tokens=37"]), trainer))


def test_the_vocabulary_of_a_model_that_sees_is_that_of_its_text_part(original: Path, make_config: Make) -> None:
    assert checkpoint_size(original).vocabulary == 190
    assert workers(make_config("task=sokoban", f"model.path={original}", "train.rendering=compact_image")) == 1


VISUAL_ROWS = Path(__file__).parents[3] / "experiments"


@pytest.mark.parametrize("name", ["table4_vision", "table4_vision_vagen"])
def test_the_visual_rows_train_the_papers_model_at_its_scale(name: str) -> None:
    """One file for both scales: with stand-ins the rendering is compact, with the paper's model it is chat."""
    shown: dict[tuple[str, bool], set[tuple[str, str]]] = {}
    for scale in ("laptop", "paper"):
        (experiment,) = load_experiments([VISUAL_ROWS / f"{name}.yaml"], [f"scale={scale}"])
        for run in experiment.runs:
            seen = "visual" in run.axes["variant"]
            shown.setdefault((scale, seen), set()).add((run.trainer, run.config["train"]["rendering"]))
            if scale == "paper":
                assert run.fingerprint["base"] == {"hub": "Qwen/Qwen2.5-VL-3B-Instruct"}
                assert run.config["task"]["response_tokens"] == 400
    assert shown == {
        ("laptop", False): {("embedded", "compact")},
        ("laptop", True): {("embedded", "compact_image")},
        ("paper", False): {("verl", "chat")},
        ("paper", True): {("verl", "chat_image")},
    }


def test_pictures_and_a_rendering_with_pictures_are_one_run() -> None:
    base = ["model=qwen2.5-vl-3b", "task=sokoban"]
    for trainer in ("embedded", "verl"):
        named = build_run([*base, f"trainer={trainer}", "scale=smoke", "train.rendering=compact_image"])
        asked = build_run([*base, f"trainer={trainer}", "scale=smoke", "train.pictures=true"])
        both = build_run(
            [*base, f"trainer={trainer}", "scale=smoke", "train.rendering=compact_image", "train.pictures=true"]
        )
        assert named.id == asked.id == both.id and named.config == asked.config == both.config


def test_a_smoke_run_that_sees_starts_from_the_shipped_base() -> None:
    run = build_run(["trainer=verl", "scale=smoke", "model=qwen2.5-vl-3b", "task=sokoban", "train.pictures=true"])
    assert "sha256" in run.fingerprint["base"]
