"""What an option means is read from the comment beside it."""

from __future__ import annotations

from dataclasses import dataclass, make_dataclass

from plat.spec.composition.descriptions import Description, describe


@dataclass
class Above:
    turns: int = 5  # at most, per episode [turns]
    band: float = 0.0  # the band [low, high)
    silent: int = 0


@dataclass
class Below(Above):
    # what has no room beside its field
    # stands above it [steps]
    long: str = "# no comment"
    several: tuple[int, ...] = (
        1,  # beside
        2,
    )  # and behind
    turns: int = 1  # another meaning


def test_comments_beside_and_above():
    assert describe(Above, "turns") == Description("at most, per episode", "turns")
    assert describe(Above, "band") == Description("the band [low, high)")
    assert describe(Above, "silent") == Description()
    assert describe(Below, "long") == Description("what has no room beside its field stands above it", "steps")
    assert describe(Below, "several") == Description("beside and behind")


def test_inherited_fields_keep_their_description_unless_they_are_said_anew():
    assert describe(Below, "band") == describe(Above, "band")
    assert describe(Below, "turns") == Description("another meaning")


def test_what_has_no_source_has_no_description():
    assert describe(make_dataclass("Made", [("size", int)]), "size") == Description()
    assert describe(Above, "absent") == Description()
