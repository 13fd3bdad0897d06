"""What the grid games share about their pictures: three options, and a picture of the board in an observation."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from plat_envs.api import Seen
from plat_envs.environment_errors import check_choice
from plat_envs.turns.episode import Episode, EpisodeConfig

if TYPE_CHECKING:
    from plat_envs.games.pictures import Picture

CELL_PX = {"compact_image": 8, "chat_image": 28}  # side of a cell [pixels]; a token of Qwen2.5-VL sees 28

BEFORE_PICTURES: Mapping[str, Any] = {"sprites": "own", "jitter": True, "blank": False}  # runs on text keep their ids


@dataclass(frozen=True)
class BoardConfig(EpisodeConfig):
    """The options of pictures. They change no instance and no text."""

    sprites: str = "own"  # sides of cells in chat_image: own, 28 pixels | vagen, as VAGEN has them (our drawings)
    jitter: bool = True  # every instance has its own palette, so that colours cannot be learned by heart
    blank: bool = False  # a control: a grey picture in place of the board

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("sprites", self.sprites, ("own", "vagen"))

    def without_pictures(self) -> Self:
        """Return these options with the default pictures: instances are drawn and cached for them."""
        return replace(self, **BEFORE_PICTURES)


class BoardEpisode(Episode):
    """Base of the grid games, which have pictures."""

    vagen_px: ClassVar[int]  # side of a cell in VAGEN [pixels]
    config: Any

    def __init__(self, config: BoardConfig, split: str, rendering: str) -> None:
        super().__init__(config, split, rendering)
        self._drawn = config.without_pictures()
        self._seed = 0

    def reset(self, seed: int, noise: int = 0) -> Seen:
        self._seed = seed
        return super().reset(seed, noise)

    @abstractmethod
    def _marked(self) -> list[str]:
        """Return the symbol of each cell of the board, row by row."""

    def _picture(self) -> Picture:
        from plat_envs.games import pictures  # needs numpy and Pillow, which text does not

        cells = self._marked()
        vagen = self.rendering == "chat_image" and self.config.sprites == "vagen"
        cell_px = self.vagen_px if vagen else CELL_PX[self.rendering]
        if self.config.blank:
            return pictures.blank(self.config.size, cell_px)
        place = f"{self.split}/{self._seed}" if self.config.jitter else None
        return pictures.board(self.task, cells, cell_px, pictures.palette_of(self.task, place))
