"""Pictures of an episode, and prompts that are told apart by tokens and pictures."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from plat_envs.api import PICTURE_RENDERINGS, Observation, Seen

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Tokens = tuple[int, ...]


def has_pictures(rendering: str) -> bool:
    """Return True if the observations of a rendering have pictures."""
    return rendering in PICTURE_RENDERINGS


@dataclass(frozen=True)
class Picture:
    """A picture; equal if size and pixels are equal.

    digest   of size and pixels
    pixels   (height, width, 3) of uint8
    """

    digest: str
    pixels: NDArray[np.uint8] = field(compare=False, repr=False)

    @classmethod
    def of(cls, pixels: NDArray[np.uint8]) -> Picture:
        import numpy as np

        content = repr(pixels.shape).encode() + np.ascontiguousarray(pixels).tobytes()
        return cls(hashlib.sha256(content).hexdigest(), pixels)


class Prompt(NamedTuple):
    """All that the policy saw before a response: token ids, and pictures in the order of their places."""

    tokens: Tokens
    pictures: tuple[Picture, ...] = ()


def blanked(prompt: Prompt) -> Prompt:
    """Return a prompt with grey pictures, as an environment with `blank: true` shows them."""
    import numpy as np

    from plat_envs.games.pictures import GREY  # needs Pillow, which texts do not

    return Prompt(prompt.tokens, tuple(Picture.of(np.full_like(own.pixels, GREY)) for own in prompt.pictures))


def pictures_of(observation: Seen) -> tuple[NDArray[np.uint8], ...]:
    """Return the pictures of an observation; a text has none."""
    return observation.images if isinstance(observation, Observation) else ()


def text_of(observation: Seen) -> str:
    """Return the text of an observation, with `<image>` at the places of its pictures."""
    return observation.text if isinstance(observation, Observation) else observation


def as_images(pictures: Iterable[NDArray[np.uint8]]) -> list[Any]:
    """Return pictures as images of Pillow, which every rollout engine of verl takes."""
    from PIL import Image

    return [Image.fromarray(pixels) for pixels in pictures]
