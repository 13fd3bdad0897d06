"""One assignment of a value to a key, and how the command line spells it (Hydra's override grammar).

The commonest spellings (`key=word`, `key=3`, `key=0.5`, `key=range(5)`) are read here, to the same values: importing
Hydra takes longer than everything else that `plat status` does. Hydra's own parser reads all others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.text import forbidden_character, is_too_large

MAX_RUNS = 100_000
PLAIN = re.compile(
    r"(?P<key>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)="
    r"(?:(?P<word>[A-Za-z_]\w*)|(?P<int>0|-?[1-9]\d{0,17})|(?P<float>-?(?:0|[1-9]\d{0,5})\.\d{1,6})"
    r"|range\((?P<start>0|[1-9]\d{0,8})(?:,(?P<stop>0|[1-9]\d{0,8}))?\))",
    re.ASCII,
)
SCALARS = (str, int, float, bool, type(None))
WORDS_WITH_A_MEANING = ("true", "false", "null", "nan", "inf")  # in upper and lower case
RANGES = "range(STOP), range(START,STOP) or range(START,STOP,STEP), each of them a number"
QUOTING = "quote odd characters: key='\"a value\"'"  # the outer quotes are for the shell
_QUOTES = " \"'"
_EVALUATING = re.compile(r"\w+ while evaluating ('.*?'): ")  # how Hydra begins what a function's exception says


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """One value given to one key.

    key               a config group or a dotted key
    where, where_key  where the value and the key were written, for messages
    of_axis           it is a value of an axis of the matrix, and the key is the axis's name
    """

    key: str
    value: Any
    where: str
    where_key: str = ""
    of_axis: bool = False

    def key_place(self) -> str:
        """Where the key was written, or else the value."""
        return self.where_key or self.where


@dataclass(frozen=True)
class CommandLine:
    """Parsed overrides: plain assignments, and the values of `matrix.<axis>=...`."""

    assignments: list[Assignment]
    axes: dict[str, tuple[list[Any], str]]  # axis -> values, place


def parse_overrides(texts: list[str] | tuple[str, ...]) -> CommandLine:
    """Parse command-line overrides; SpecError names the override that is wrong."""
    assignments: dict[str, Assignment] = {}
    axes: dict[str, tuple[list[Any], str]] = {}
    for text in texts:
        place = f"command line: {text}"
        key, value = _parse(text, place)
        if key.startswith("matrix."):
            axes[key.removeprefix("matrix.")] = (values_of(value, place), place)
        elif is_sweep(value):
            assignments[key] = Assignment(key, value, place)
        else:
            assignments.pop(key, None)  # a key given twice counts once, at the position of its last value
            assignments[key] = Assignment(key, to_plain(value, place), place)
    return CommandLine(list(assignments.values()), axes)


def parse_plain(text: str) -> tuple[str, Any] | None:
    """(key, value) of an override in one of the commonest spellings, a range as a `range`; None for any other."""
    match = PLAIN.fullmatch(text)
    if match is None:
        return None
    key, word, start = match["key"], match["word"], match["start"]
    if word is not None:
        return None if word.lower() in WORDS_WITH_A_MEANING else (key, word)
    if start is not None:
        return key, range(int(start)) if match["stop"] is None else range(int(start), int(match["stop"]))
    return key, int(match["int"]) if match["int"] is not None else float(match["float"])


def _parse(text: str, place: str) -> tuple[str, Any]:
    plain = parse_plain(text)
    return _parse_with_hydra(text, place) if plain is None else plain


def _parse_with_hydra(text: str, place: str) -> tuple[str, Any]:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from hydra.errors import HydraException

    if not text.partition("=")[0].strip(" +~") or "=" not in text:
        raise SpecError(
            "an override needs `key=value`", where=place, mend="write key=value, or name an experiment file"
        )
    character = forbidden_character(text)
    if character is not None:
        raise SpecError(f"a character that plat does not accept ({character})", where=place, mend="remove it")
    try:
        parsed = OverridesParser.create().parse_override(text)
        kind, value = parsed.type, parsed._value
    except RecursionError:
        raise SpecError("nested too deeply", where=place, mend="write a simpler value") from None
    except (HydraException, ValueError, TypeError, ArithmeticError) as error:
        raise _refusal(text, place, error) from None
    if kind is OverrideType.DEL:
        raise SpecError("a key cannot be removed", where=place, mend="give it a value instead")
    if parsed.package is not None:
        raise SpecError("packages (@) are not supported", where=place, mend="write group=option")
    return parsed.key_or_group.replace("/", "."), value


def _refusal(text: str, place: str, error: Exception) -> SpecError:
    """What to say of an override that Hydra cannot read."""
    value = text.partition("=")[2].strip()
    if value.startswith("range("):
        return SpecError(f"{value} is not a range", where=place, mend=f"write {RANGES}")
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    reason = _EVALUATING.sub(r"\1: ", reason)
    return SpecError(f"not a valid override: {reason}", where=place, mend=_well_written(text) or QUOTING)


def _well_written(text: str) -> str:
    """How an override is written that has blanks around its =, two of them, an open bracket, or an = in its value or in
    the values of its list; "" for any other."""
    key, _, value = text.partition("=")
    if value.startswith("=") or key != key.strip() or value != value.strip():
        return f"write {key.strip()}={value.strip('= ')}"
    if value.count("[") != value.count("]"):
        return "close what is open: as many ] as ["
    if "=" not in value:
        return ""
    items = ",".join(f'"{item.strip(_QUOTES)}"' for item in value.strip("[] ").split(","))
    return f"""quote what has an = in it: '{key}={f"[{items}]" if value.startswith("[") else items}'"""


def is_sweep(value: Any) -> bool:
    """Whether a value stands for several: `range(...)`, `a,b,c`, `glob(...)`."""
    if isinstance(value, (range, *SCALARS, list, dict)):
        return isinstance(value, range)
    from hydra.core.override_parser.types import Glob, Sweep

    return isinstance(value, (Sweep, Glob))


def values_of(value: Any, place: str) -> list[Any]:
    """The values of an axis: a list, `range(...)`, `a,b,c`, or one value."""
    if isinstance(value, range):
        return _range(value, place)
    if not is_sweep(value):
        listed = to_plain(value, place)
        return listed if isinstance(listed, list) else [listed]
    from hydra.core.override_parser.types import ChoiceSweep, RangeSweep

    if isinstance(value, RangeSweep):
        return _range(value, place)
    if isinstance(value, ChoiceSweep):
        return [to_plain(choice, place) for choice in value.list]
    raise SpecError(
        f"{type(value).__name__.removesuffix('Sweep').lower()}(...) has no fixed list of values",
        where=place,
        mend="list the values: [a,b,c] or range(5)",
    )


def _range(sweep: Any, place: str) -> list[Any]:
    """The values of a range. They are counted before they are made, so that range(1000000000) costs nothing."""
    start, stop, step = (sweep.start or 0), sweep.stop, sweep.step
    try:
        count = (stop - start) / step
    except (ZeroDivisionError, TypeError):
        raise SpecError("a range needs a step other than 0", where=place, mend="write range(start,stop,step)") from None
    if not count <= MAX_RUNS:
        raise SpecError(
            f"a range of {count:,.0f} values", where=place, mend=f"a matrix has at most {MAX_RUNS:,} runs; use fewer"
        )
    return [to_plain(value, place) for value in (sweep if isinstance(sweep, range) else sweep.range())]


def axis_text(axis: str, text: str, place: str) -> list[Any]:
    """The values of an axis written as text in a file, e.g. `seed: range(5)`."""
    _, value = _parse(f"{axis}={text}", place)
    return values_of(value, place)


def to_plain(value: Any, place: str = "") -> Any:
    """Hydra's quoted strings, casts and numpy-like scalars as plain Python values; SpecError for a number too large."""
    if isinstance(value, dict):
        return {str(to_plain(name, place)): to_plain(inner, place) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(inner, place) for inner in value]
    if type(value) is int and is_too_large(value):
        raise SpecError(
            "a whole number with too many digits (more than 64 bits)", where=place, mend="quote it if it is text"
        )
    if isinstance(value, SCALARS):
        return value
    from hydra.core.override_parser.types import Key, QuotedString

    if isinstance(value, (QuotedString, Key)):
        return str(getattr(value, "text", value))
    return float(value)
