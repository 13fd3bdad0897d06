"""Name the placeholder of each option, and sort the options into those of the command and the others."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable
from dataclasses import dataclass

from plat.app.first_file.flags import Flag
from plat.spec.composition.pieces import OF_FILES
from plat.trainer.script.config import TO_FILL_IN, ScriptRunConfig

# The first part of a name that plat itself understands.
TAKEN = {*OF_FILES, "plat", *(field.name for field in dataclasses.fields(ScriptRunConfig))}
FOLDER, CHECKPOINTS = "plat.run_dir", "plat.checkpoint_dir"
_TRUE = ("True", "true")
SEEDS = ("seed", "random_seed", "rng_seed")
_FOLDER = re.compile(r"(out|output|outputs|save|log|logs|logging|result|results|work|run|experiment)_?(dir|folder)")
_CHECKPOINTS = re.compile(r"(checkpoint|checkpoints|ckpt|ckpts)_?(dir|folder)")
_NUMBER = re.compile(r"[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Placed:
    """An option in the command. `placeholder` is the name in braces; `in_base`: its value stands in the file."""

    flag: Flag
    placeholder: str
    in_base: bool = True

    @property
    def value(self) -> str:
        """Its default as text, the first choice or TO_FILL_IN of a required option without one; of a switch a bool."""
        if self.flag.is_switch:
            return "true" if self.flag.default in (*_TRUE, self.flag.name) else "false"
        return self.flag.default if self.flag.default is not None else (*self.flag.choices, TO_FILL_IN)[0]

    @property
    def word(self) -> str:
        """What the command has for it."""
        if not self.flag.is_switch:
            return f"{self.flag.opening}{{{self.placeholder}}}"
        off = f" {{!{self.placeholder}?{self.flag.negation}}}" if self.flag.negation else ""
        return f"{{{self.placeholder}?{self.flag.opening.strip()}}}{off}"

    @property
    def is_number(self) -> bool:
        return _NUMBER.fullmatch(self.value) is not None

    @property
    def must_be_filled_in(self) -> bool:
        return self.in_base and self.flag.default is None and not self.flag.is_switch


def placed(flags: Iterable[Flag]) -> tuple[list[Placed], list[Flag]]:
    """Return the options that the command passes, and those that it does not.

    It passes every option with a default or a value that plat knows: the seed, and the folders of a run. It also passes
    the required ones.
    """
    used: list[Placed] = []
    left: list[Flag] = []
    for flag in flags:
        name = re.sub(r"[^\w.]", "_", flag.name).strip(".")
        last = name.rpartition(".")[2].lower()
        own = "" if flag.is_switch else _own_placeholder(last)
        if own == "seed" and any(other.placeholder == own for other in used):
            own = ""
        new = Placed(flag, own or _free(name, {other.placeholder for other in used}), in_base=not own)
        # without its default, a switch with a negation has a value that no one knows
        is_known = flag.default is not None or flag.is_required or own or (flag.is_switch and not flag.negation)
        if is_known and not flag.has_several and can_be_written(new.value):
            used.append(new)
        else:
            left.append(flag)
    return used, left


def _own_placeholder(name: str) -> str:
    """Return the placeholder that plat itself fills in for an option of this name, "" for none."""
    if name in SEEDS:
        return "seed"
    return CHECKPOINTS if _CHECKPOINTS.fullmatch(name) else FOLDER if _FOLDER.fullmatch(name) else ""


def can_be_written(value: str) -> bool:
    """Return False for a value that a file or a command cannot spell simply.

    These are interpolations, very long texts, and texts that a parser would take for an option.
    """
    is_option = value.startswith("-") and not _NUMBER.fullmatch(value)
    return not is_option and "${" not in value and value.isprintable() and len(value) <= 200


def _free(name: str, used: set[str]) -> str:
    """Return the name, changed until no other key contains it: `a` and `a.b` cannot both be keys."""
    top, dot, rest = name.partition(".")
    while top in TAKEN or not re.match(r"[A-Za-z_]", top) or any(_clash(f"{top}{dot}{rest}", one) for one in used):
        top += "_"
    return f"{top}{dot}{rest}"


def _clash(one: str, other: str) -> bool:
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
