"""Checks before training: does a checkpoint see pictures as its processor makes them, and do the limits hold them?

Imports neither torch nor transformers, except to count the tokens of a picture.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from plat.errors import SpecError
from plat.plain_files import read_json_value
from plat_rl.environments import environment_errors, environment_of
from plat_rl.verl.settings.models import is_stand_in
from plat_rl.verl.settings.verl_config import VerlRunConfig
from plat_rl.verl.vision.pictures import has_pictures, pictures_of

MODEL_TYPE = "qwen2_5_vl"
IMAGE_TOKENS = ("image_token_id", "vision_start_token_id", "vision_end_token_id")  # in config.json
# preprocessor_config.json -> vision_config of config.json, and the value where one leaves it out
SIZES = {
    "patch_size": ("patch_size", 14),
    "merge_size": ("spatial_merge_size", 2),
    "temporal_patch_size": ("temporal_patch_size", 2),
}


class ImageSizes(NamedTuple):
    """How pictures become tokens: sides of a patch in pixels, patches of a token along a side, limits of all pixels."""

    patch: int = 14
    merge: int = 2
    min_pixels: int = 56 * 56
    max_pixels: int = 28 * 28 * 1280

    def tokens(self, height: int, width: int) -> int:
        """Return the number of tokens of a picture."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        side = self.patch * self.merge
        height, width = smart_resize(height, width, side, self.min_pixels, self.max_pixels)
        return (height // side) * (width // side)


OF_STAND_INS = ImageSizes(patch=8, merge=1, min_pixels=64)
OF_THE_HUB = ImageSizes()  # of every published Qwen2.5-VL


def check_vision(config: VerlRunConfig) -> None:
    """Raise SpecError if pictures do not fit the checkpoint or the limits. Does nothing for renderings without any."""
    if not has_pictures(config.train.rendering):
        return
    sizes = OF_STAND_INS if is_stand_in(config) else OF_THE_HUB
    if config.model.path is not None:
        sizes = image_sizes(config.model.path)
    check_limits(config, sizes)


@lru_cache(maxsize=16)
def image_sizes(folder: str) -> ImageSizes:
    """Return how a local checkpoint's processor cuts pictures, after a check that this is what the model expects.

    Raises SpecError if the model sees no pictures, if its processor is missing or has other sizes, or if the tokens
    that stand for pictures are missing.
    """
    config = _read(Path(folder, "config.json"))
    if config.get("model_type") != MODEL_TYPE:
        raise SpecError(
            f"the checkpoint at {folder} sees no pictures: its model_type is {config.get('model_type')}",
            where="model.path",
            fix="name a Qwen2.5-VL, or train.rendering=chat",
        )
    file = Path(folder, "preprocessor_config.json")
    processor = _read(file)
    vision = config.get("vision_config") or {}
    for name, (other, usual) in SIZES.items():
        given, expected = processor.get(name, usual), vision.get(other, usual)
        if given != expected:
            raise SpecError(
                f"the checkpoint's image processor does not fit its model: {name} is {given}, and {other} of the "
                f"model's vision_config is {expected}",
                where=str(file),
                fix=f'"{name}": {expected}',
            )
    _check_tokens(Path(folder), config)
    size = processor.get("size") or {}
    default = ImageSizes()
    return ImageSizes(
        int(processor.get("patch_size", 14)),
        int(processor.get("merge_size", 2)),
        int(processor.get("min_pixels") or size.get("shortest_edge") or default.min_pixels),
        int(processor.get("max_pixels") or size.get("longest_edge") or default.max_pixels),
    )


def _read(file: Path) -> Mapping[str, Any]:
    try:
        content = read_json_value(file)
    except (OSError, ValueError) as error:
        raise SpecError(
            f"the checkpoint's {file.name} cannot be read: {error}",
            where=str(file),
            fix="name a folder with all files of a Qwen2.5-VL: config.json, preprocessor_config.json, the tokenizer, "
            "*.safetensors",
        ) from error
    if not isinstance(content, Mapping):
        raise SpecError(f"{file.name} has no mapping", where=str(file), fix="use the file of the model's publisher")
    return content


def _check_tokens(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise SpecError if config.json lacks the id of an image token, or tokenizer.json has no token of such an id."""
    known = None
    if (folder / "tokenizer.json").is_file():
        tokenizer = _read(folder / "tokenizer.json")
        vocabulary = (tokenizer.get("model") or {}).get("vocab") or {}
        known = {*vocabulary.values(), *(token["id"] for token in tokenizer.get("added_tokens") or ())}
    for name in IMAGE_TOKENS:
        number = config.get(name)
        if number is None or (known is not None and number not in known):
            has = "has none" if number is None else f"{number} is no token of its tokenizer"
            raise SpecError(
                f"the checkpoint has no token for {name}: {has}",
                where=str(folder / ("config.json" if number is None else "tokenizer.json")),
                fix="use config and tokenizer of one Qwen2.5-VL",
            )


def check_limits(config: VerlRunConfig, sizes: ImageSizes) -> None:
    """Raise SpecError if the pictures of the task's first observation have more tokens than a limit.

    Only the tokens of pictures, and the two around each, are counted; a text comes beside them.
    """
    spec, options = environment_of(config)
    if not spec.countable(options):
        return
    with environment_errors():
        environment = spec.make(options, "train", config.train.rendering)
        pictures = pictures_of(environment.reset(0))
        environment.close()
    needed = sum(sizes.tokens(*picture.shape[:2]) + 2 for picture in pictures)
    limits = {"verl.prompt_tokens": config.verl.prompt_tokens}
    if config.train.context == "full" and config.task.turns > 1:
        limits["verl.observation_tokens"] = config.verl.observation_tokens
    small = {name: limit for name, limit in limits.items() if limit < needed}
    if small:
        shapes = ", ".join(f"{picture.shape[1]} x {picture.shape[0]}" for picture in pictures)
        raise SpecError(
            f"the pictures of an observation ({shapes} pixels) are {needed} tokens, and "
            + " and ".join(f"{name} is {limit}" for name, limit in small.items()),
            where=next(iter(small)),
            fix=" ".join(f"{name}={2 * needed}" for name in small) + " (room for the text, too), or smaller pictures",
        )
