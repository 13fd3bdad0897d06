"""Parse overrides in Hydra's override grammar into assignments of values to keys.

The commonest spellings (`key=word`, `key=3`, `key=0.5`, `key=range(5)`) are parsed here, with the same result, because
importing Hydra takes longer than the rest of `plat status`. Hydra's own parser reads all others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from plat.characters import forbidden_character, is_too_large
from plat.errors import SpecError

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
_EVALUATING = re.compile(r"\w+ while evaluating ('.*?'): ")  # Hydra's prefix to the message of a function's exception


@dataclass(frozen=True, slots=True, eq=False)
class Assignment:
    """One value given to one key.

    key               a config group or a dotted key
    where, where_key  the positions of the value and the key, for messages
    of_axis           True if it is a value of a matrix axis and the key is the axis's name
    """

    key: str
    value: Any
    where: str
    where_key: str = ""
    of_axis: bool = False

    def key_place(self) -> str:
        """Return the position of the key, or of the value if the key has none."""
        return self.where_key or self.where


@dataclass(frozen=True)
class CommandLine:
    """Parsed overrides: assignments, and the values of `matrix.<axis>=...`.

    The value of an assignment may still be a sweep, such as `a,b` or `range(3)`: see `is_sweep` and `values_of`.
    """

    assignments: list[Assignment]
    axes: dict[str, tuple[list[Any], str]]  # axis -> values, place


def parse_overrides(texts: list[str] | tuple[str, ...]) -> CommandLine:
    """Parse command-line overrides; for a key given twice, the last value counts. SpecError names a wrong override."""
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
    """Return (key, value) of an override in a common spelling, a range as a `range`; None for any other."""
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
    return parse_plain(text) or _parse_with_hydra(text, place)


def _parse_with_hydra(text: str, place: str) -> tuple[str, Any]:
    """Return key and value of an override. Raises SpecError if Hydra cannot parse it, or plat does not support it."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.core.override_parser.types import OverrideType
    from hydra.errors import HydraException

    if not text.partition("=")[0].strip(" +~") or "=" not in text:
        raise SpecError("an override needs `key=value`", where=place, fix="write key=value, or name an experiment file")
    character = forbidden_character(text)
    if character is not None:
        raise SpecError(f"a character that plat does not accept ({character})", where=place, fix="remove it")
    try:
        parsed = OverridesParser.create().parse_override(text)
        kind, value = parsed.type, parsed._value
    except RecursionError:
        raise SpecError("nested too deeply", where=place, fix="write a simpler value") from None
    except (HydraException, ValueError, TypeError, ArithmeticError) as error:
        raise _refusal(text, place, error) from None
    if kind is OverrideType.DEL:
        raise SpecError("a key cannot be removed", where=place, fix="give it a value instead")
    if parsed.package is not None:
        raise SpecError("packages (@) are not supported", where=place, fix="write group=option")
    return parsed.key_or_group.replace("/", "."), value


def _refusal(text: str, place: str, error: Exception) -> SpecError:
    """Return the error for an override that Hydra cannot parse."""
    value = text.partition("=")[2].strip()
    if value.startswith("range("):
        return SpecError(f"{value} is not a range", where=place, fix=f"write {RANGES}")
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    reason = _EVALUATING.sub(r"\1: ", reason)
    return SpecError(f"not a valid override: {reason}", where=place, fix=_well_written(text) or QUOTING)


def _well_written(text: str) -> str:
    """Return the fix for blanks around =, a second =, an open bracket or an unquoted = in the value; "" otherwise."""
    key, _, value = text.partition("=")
    if value.startswith("=") or key != key.strip() or value != value.strip():
        return f"write {key.strip()}={value.strip('= ')}"
    if value.count("[") != value.count("]"):
        return "close the brackets: as many ] as ["
    if "=" not in value:
        return ""
    items = ",".join(f'"{item.strip(_QUOTES)}"' for item in value.strip("[] ").split(","))
    return f"""quote values that contain =: '{key}={f"[{items}]" if value.startswith("[") else items}'"""


def is_sweep(value: Any) -> bool:
    """Return True if a value means several values: `range(...)`, `a,b,c`, `glob(...)`."""
    if isinstance(value, (range, *SCALARS, list, dict)):
        return isinstance(value, range)
    from hydra.core.override_parser.types import Glob, Sweep

    return isinstance(value, (Sweep, Glob))


def values_of(value: Any, place: str) -> list[Any]:
    """Return the values of an axis from a parsed value: a list, a range, a sweep `a,b,c`, or one value.

    A string is one value, even "a,b,c" or "range(5)". For text that is not parsed yet, use `axis_text`.

    Raises SpecError, at `place`, for `glob(...)` and `interval(...)`, for a range with step 0 or of more than MAX_RUNS
    values, and for a whole number of more than 64 bits.
    """
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
    what = f"{type(value).__name__.removesuffix('Sweep').lower()}(...) has no fixed list of values"
    raise SpecError(what, where=place, fix="list the values: [a,b,c] or range(5)")


def _range(sweep: Any, place: str) -> list[Any]:
    """Return the values of a range. The count is checked first, so that range(1000000000) costs nothing."""
    start, stop, step = (sweep.start or 0), sweep.stop, sweep.step
    try:
        count = (stop - start) / step
    except (ZeroDivisionError, TypeError):
        raise SpecError("a range needs a step other than 0", where=place, fix="write range(start,stop,step)") from None
    if not count <= MAX_RUNS:
        what = f"a range of {count:,.0f} values"
        raise SpecError(what, where=place, fix=f"a matrix has at most {MAX_RUNS:,} runs; use fewer")
    return [to_plain(value, place) for value in (sweep if isinstance(sweep, range) else sweep.range())]


def axis_text(axis: str, text: str, place: str) -> list[Any]:
    """Return the values of an axis written as text in a file, e.g. `seed: range(5)`.

    Raises SpecError, with the position `place`, if the text cannot be parsed or is a glob or an impossible range.
    """
    return values_of(_parse(f"{axis}={text}", place)[1], place)


def to_plain(value: Any, place: str = "") -> Any:
    """Convert Hydra's quoted strings, casts and numpy-like scalars to plain values. Raises SpecError beyond 64 bits."""
    if isinstance(value, dict):
        return {str(to_plain(name, place)): to_plain(inner, place) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_plain(inner, place) for inner in value]
    if type(value) is int and is_too_large(value):
        what = "a whole number with too many digits (more than 64 bits)"
        raise SpecError(what, where=place, fix="quote it if it is text")
    if isinstance(value, SCALARS):
        return value
    from hydra.core.override_parser.types import Key, QuotedString

    if isinstance(value, (QuotedString, Key)):
        return str(getattr(value, "text", value))
    return float(value)
