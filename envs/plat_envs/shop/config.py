"""The options of `webshop`."""

from __future__ import annotations

from dataclasses import dataclass

from plat_envs.environment_errors import BadEnvironment, check_choice, check_range
from plat_envs.turns.episode import EpisodeConfig


@dataclass(frozen=True)
class WebShopConfig(EpisodeConfig):
    turns: int = 7  # searches and clicks in an episode; the released task has 9 [turns]
    actions_per_turn: int = 1  # pages change with every action, so it is always 1 [actions]
    reward: str = "binary"  # as released: 1 for a perfect purchase, else 0 | dense: the score
    data: str = "generated"  # where the products of the chat rendering come from: generated | file
    path: str = ""  # of the products, items_shuffle*.json, where `data` is file
    cache: str = ""  # folder for the converted files; empty: the folder of `path`
    goals: str = "synthetic"  # as released | human: instructions that people wrote; where `data` is file
    split: str = "product"  # all goals of a product are in one split | goal, as released
    products: int = 4000  # of a generated shop; an evaluation of 512 goals needs as many in each split [products]
    catalogue: int = 0  # the seed of a generated shop

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("actions_per_turn", self.actions_per_turn, 1, 1)
        check_choice("reward", self.reward, ("binary", "dense"))
        check_choice("data", self.data, ("generated", "file"))
        check_choice("goals", self.goals, ("synthetic", "human"))
        check_choice("split", self.split, ("product", "goal"))
        check_range("products", self.products, 50, 20_000)
        check_range("catalogue", self.catalogue, 0, 2**31)
        if self.data == "file" and not self.path:
            raise BadEnvironment("webshop: data is 'file' but path is empty", fix="path: the file items_shuffle*.json")
        if self.data == "generated" and self.goals == "human":
            raise BadEnvironment("webshop: a generated shop has no human goals", fix="goals: synthetic, or data: file")
