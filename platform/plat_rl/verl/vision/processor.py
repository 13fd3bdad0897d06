"""The processor of a Qwen2.5-VL checkpoint: its tokenizer, and transformers' image processor on Pillow.

transformers' own processor also loads one for videos, which needs torchvision; this one knows no videos. It takes the
place of verl's `hf_processor` (`plat_rl.verl.cpu.repairs`), so verl calls it as it would call transformers'.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from plat.errors import RunError

MODEL_TYPE = "qwen2_5_vl"
NAMES = ("image_token_id", "vision_start_token_id", "vision_end_token_id")  # in the model's config


class VisionProcessor:
    """Texts with places of pictures to token ids, and pictures to features.

    A place of a picture is one `image_token_id` in ids before `expand`, and one for each token of the picture
    afterwards.
    """

    def __init__(self, image_processor: Any, tokenizer: Any, config: Any) -> None:
        self.image_processor, self.tokenizer, self.config = image_processor, tokenizer, config
        self.chat_template = tokenizer.chat_template
        self.image_token_id, self.start_id, self.end_id = (int(getattr(config, name)) for name in NAMES)
        video = int(config.video_token_id)
        # Stand-ins have one id for both; verl would take every picture for a video.
        self.video_token_id = video if video != self.image_token_id else -1
        self.names = tuple(tokenizer.convert_ids_to_tokens([self.start_id, self.image_token_id, self.end_id]))
        self.place = "".join(self.names)

    @property
    def never_sampled(self) -> tuple[int, ...]:
        """Ids that have no meaning in a response: they would ask for a picture that is not there."""
        ids = (self.image_token_id, self.start_id, self.end_id, self.video_token_id)
        return tuple(sorted(number for number in ids if 0 <= number < self.config.get_text_config().vocab_size))

    # --- pictures -----------------------------------------------------------------------------------------------------

    def features(self, images: Sequence[Any]) -> tuple[Tensor, Tensor]:
        """Return `pixel_values` (patches, numbers of a patch) and `image_grid_thw` (images, 3) of one or more images.

        images   of Pillow, or arrays (height, width, 3) of uint8
        """
        made = self.image_processor(images=[np.asarray(image) for image in images], input_data_format="channels_last")
        return torch.from_numpy(np.asarray(made["pixel_values"])), torch.from_numpy(np.asarray(made["image_grid_thw"]))

    def grid(self, image: Any) -> tuple[int, int]:
        """Return how many patches an image has from top to bottom and from left to right."""
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize

        inner = self.image_processor
        height, width = np.asarray(image).shape[:2]
        factor, size = inner.patch_size * inner.merge_size, inner.size
        if inner.do_resize:
            height, width = smart_resize(height, width, factor, size["shortest_edge"], size["longest_edge"])
        return height // inner.patch_size, width // inner.patch_size

    def image_tokens(self, image: Any) -> int:
        """Return how many tokens an image becomes."""
        rows, columns = self.grid(image)
        return rows * columns // int(self.image_processor.merge_size) ** 2

    def feature_bytes(self, images: Iterable[Any]) -> int:
        """Return the memory of the images' features in bytes, without making them."""
        inner = self.image_processor
        numbers = 3 * int(inner.temporal_patch_size) * int(inner.patch_size) ** 2
        return sum(rows * columns * numbers * 4 for rows, columns in map(self.grid, images))

    # --- tokens -------------------------------------------------------------------------------------------------------

    def expand(self, ids: Sequence[int], images: Sequence[Any]) -> list[int]:
        """Return ids with as many `image_token_id` at each place as its image has tokens.

        Raises RunError if there are not as many places as images.
        """
        places = sum(number == self.image_token_id for number in ids)
        if places != len(images):
            raise RunError(
                f"a prompt has {places} places of pictures and {len(images)} pictures",
                where="task",
                fix="the environment writes <image> once for each picture, and no token of the model's by name",
            )
        counts = map(self.image_tokens, images)
        return [
            each for number in ids for each in ([number] * next(counts) if number == self.image_token_id else [number])
        ]

    def positions(self, ids: Tensor, grids: Tensor | None, mask: Tensor | None = None) -> Tensor:
        """Return the positions (3, B, T) of token ids (B, T): time, row and column.

        grids   `image_grid_thw` of all images of the batch; None if there are none
        mask    (B, T) 0 at padding
        """
        kinds = (ids == self.image_token_id).int()
        return self.get_rope_index(ids, mm_token_type_ids=kinds, image_grid_thw=grids, attention_mask=mask)[0]

    # --- what verl calls ----------------------------------------------------------------------------------------------

    def __call__(
        self,
        text: str | Sequence[str],
        images: Sequence[Any] | None = None,
        videos: None = None,
        return_tensors: str | None = None,
        **options: Any,
    ) -> Any:
        """Return `input_ids`, `attention_mask` and `mm_token_type_ids` of texts, and the features of the images.

        Each place of an image in the texts, in order, becomes the tokens of that image; a place without an image stays
        one token. verl has the ids of an episode already and uses only the features: in its texts places may be gone,
        and a policy may have spelt one.

        Raises ValueError for videos.
        """
        from transformers import BatchFeature

        if videos:
            raise ValueError("plat's processor knows no videos")
        texts = [text] if isinstance(text, str) else list(text)
        left = list(images or ())
        rows = []
        for one in texts:
            ids = self.tokenizer.encode(one, add_special_tokens=False)
            places = [at for at, number in enumerate(ids) if number == self.image_token_id]
            end = places[len(left)] if len(places) > len(left) else len(ids)
            own, left = left[: len(places)], left[len(places) :]
            rows.append([*self.expand(ids[:end], own), *ids[end:]])
        padded = self.tokenizer.pad({"input_ids": rows}, padding=len(rows) > 1, **options)
        made = {"input_ids": padded["input_ids"], "attention_mask": padded["attention_mask"]}
        kinds = [[int(number == self.image_token_id) for number in row] for row in made["input_ids"]]
        made["mm_token_type_ids"] = kinds  # for verl it means: give `get_rope_index` the kinds of the tokens
        if images:
            made["pixel_values"], made["image_grid_thw"] = self.features(images)
        return BatchFeature(made, tensor_type=return_tensors)

    def get_rope_index(self, input_ids: Tensor, **named: Any) -> tuple[Tensor, Tensor]:
        """Return what the model's method of this name returns: positions (3, B, T), and their shift (B, 1)."""
        from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel

        positions, shift = Qwen2_5_VLModel.get_rope_index(self, input_ids, **named)  # type: ignore[arg-type]
        return positions, shift

    def get_vision_position_ids(self, *given: Any, **named: Any) -> Tensor:
        """Return what the model's method of this name returns; `get_rope_index` calls it."""
        from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLModel

        made: Tensor = Qwen2_5_VLModel.get_vision_position_ids(self, *given, **named)  # type: ignore[arg-type]
        return made

    def apply_chat_template(self, *given: Any, **named: Any) -> Any:
        return self.tokenizer.apply_chat_template(*given, **named)

    def decode(self, *given: Any, **named: Any) -> Any:
        return self.tokenizer.decode(*given, **named)

    def batch_decode(self, *given: Any, **named: Any) -> Any:
        return self.tokenizer.batch_decode(*given, **named)

    def save_pretrained(self, folder: str, **unused: Any) -> None:
        """Write tokenizer and image processor; verl does so with a checkpoint."""
        self.tokenizer.save_pretrained(folder)
        self.image_processor.save_pretrained(folder)


def load_processor(path: str, **options: Any) -> VisionProcessor | None:
    """Return the processor of a checkpoint (folder or hub name); None if the model is no Qwen2.5-VL.

    options   for transformers' `from_pretrained`
    """
    from transformers import AutoConfig, AutoTokenizer
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    config = AutoConfig.from_pretrained(path, **options)
    if config.model_type != MODEL_TYPE:
        return None
    values, _ = Qwen2VLImageProcessorPil.get_image_processor_dict(path)
    # Given by these names, the sizes would change the class's default, too.
    default = {"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}
    size = {**default, **(values.pop("size", None) or {})}
    for name, edge in (("min_pixels", "shortest_edge"), ("max_pixels", "longest_edge")):
        size[edge] = values.pop(name, None) or size[edge]
    size = {edge: size[edge] for edge in default}
    tokenizer = AutoTokenizer.from_pretrained(path, **options)
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    template = Path(path, "chat_template.json")  # of older checkpoints, and only transformers' processors read it
    if not tokenizer.chat_template and template.is_file():
        tokenizer.chat_template = json.loads(template.read_text(encoding="utf-8"))["chat_template"]
    return VisionProcessor(Qwen2VLImageProcessorPil.from_dict({**values, "size": size}), tokenizer, config)
