"""The options of `deepcoder`."""

from __future__ import annotations

from dataclasses import dataclass

from plat_envs.environment_errors import BadEnvironment, check_choice, check_range
from plat_envs.turns.episode import EpisodeConfig


@dataclass(frozen=True)
class DeepCoderConfig(EpisodeConfig):
    turns: int = 1  # programs that may be handed in; as released [turns]
    actions_per_turn: int = 1  # programs in an answer [actions]
    new_programs: bool = False  # True: programs of an instance occur in no other split; False: its examples do not
    reward: str = "share"  # as released: the share of the tests that pass | all: 1 if all pass, else 0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("actions_per_turn", self.actions_per_turn, 1, 1)
        check_choice("reward", self.reward, ("share", "all"))
        if self.turns > 1 and self.reward == "share":
            what = "deepcoder: with several turns, failing often would pay more than one program that passes"
            raise BadEnvironment(what, where="turns", fix="turns: 1, or reward: all")
