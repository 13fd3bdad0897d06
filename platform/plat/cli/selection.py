"""Which runs are meant: the conditions of `--where`.

    --where task=sokoban                      an axis, one of `plat.cli.run_facts.FIELDS`, a config key, or a metric
    --where filter=none --where filter=top_p  several values of one key are alternatives
    --where task=sokoban --where success>0.5  conditions on several keys must all hold

Numbers are compared as numbers (0.90 equals 0.9), everything else as text. A run that has no value fulfils `!=` alone.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from plat.errors import SpecError
from plat.suggest import mend, nearest

WhereOption = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="KEY=VALUE",
        help="Only runs with this value of an axis, a column or a config key (train.lr); also !=, <, <=, > and >=. "
        "A key given twice with = means either value, several keys must all fit.",
    ),
]
_CONDITION = re.compile(r"([^=<>!]+)(!=|<=|>=|==?|<|>)(.*)", re.DOTALL)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """`key sign value`, and how the user wrote it."""

    key: str
    sign: str
    value: str
    written: str

    def holds(self, given: Any) -> bool:
        """Whether a run with this value fulfils it."""
        if self.sign in _ORDER:
            number = _number(given)
            return number is not None and _ORDER[self.sign](number, float(self.value))
        return _same(given, self.value) == (self.sign == "=")


@dataclass(frozen=True)
class Selection:
    """Conditions on runs: those with `=` on one key are alternatives, and everything else must hold."""

    conditions: tuple[Condition, ...]

    @property
    def keys(self) -> list[str]:
        """The keys that are asked for, each once."""
        return list(dict.fromkeys(condition.key for condition in self.conditions))

    def holds(self, value_of: Callable[[str], Any]) -> bool:
        """Whether a run fulfils the conditions; `value_of` gives its value of a key."""
        for key in self.keys:
            given = value_of(key)
            conditions = [condition for condition in self.conditions if condition.key == key]
            alternatives = [condition for condition in conditions if condition.sign == "="]
            if alternatives and not any(condition.holds(given) for condition in alternatives):
                return False
            if not all(condition.holds(given) for condition in conditions if condition.sign != "="):
                return False
        return True

    def check(
        self,
        known: Sequence[str],
        config_keys: Callable[[], Iterable[str]],
        values_of: Callable[[str], Iterable[Any]],
    ) -> None:
        """SpecError for a key that is not known, and for a value that no run has while it has others.

        known        the names of axes and columns
        config_keys  the keys of a run's config, asked for where one may be misspelt
        values_of    the values that the runs have of a key
        """
        for condition in self.conditions:
            place = f"the command line: --where {condition.written}"
            values = [value for value in values_of(condition.key) if value is not None]
            is_metric = "/" in condition.key  # metrics have names of their own
            if not values and not is_metric and condition.key not in known:
                keys = list(config_keys())
                if condition.key not in keys:
                    raise SpecError(
                        f"no run has an axis, a column or a config key {condition.key!r}",
                        where=place,
                        mend=_mend_key(condition.key, known, keys),
                    )
            is_wrong = values and not any(_same(value, condition.value) for value in values)
            if condition.sign in ("=", "!=") and is_wrong:
                texts = list(dict.fromkeys(str(value) for value in values))
                raise SpecError(
                    f"no run has {condition.key}={condition.value}",
                    where=place,
                    mend=mend(condition.value, texts, "values"),
                )


def _mend_key(key: str, known: Sequence[str], config_keys: Sequence[str]) -> str:
    """The nearest key, of a dotted one among those of the config first; else what may be asked for."""
    first, second = (config_keys, known) if "." in key else (known, config_keys)
    near = nearest(key, first) or nearest(key, second)
    if near:
        return f"did you mean {near!r}?"
    return f"axes and columns: {', '.join(known)}; or a key of the configs, such as task or train.lr (plat options)"


def parse_where(texts: Sequence[str] | None) -> Selection:
    """The conditions of `--where` as they were typed; SpecError for one that is none."""
    conditions = []
    for text in texts or ():
        place = f"the command line: --where {text}"
        match = _CONDITION.fullmatch(text)
        if match is None:
            raise SpecError(
                f"--where takes KEY=VALUE, not {text!r}", where=place, mend="for example --where task=sokoban"
            )
        key, sign, value = (part.strip() for part in match.groups())
        sign = "=" if sign == "==" else sign
        if sign in _ORDER and _number(value) is None:
            raise SpecError(
                f"{key}{sign} needs a number, and {value!r} is none", where=place, mend=f"for example {key}{sign}0.5"
            )
        conditions.append(Condition(key, sign, value, text))
    return Selection(tuple(conditions))


def _same(given: Any, wanted: str) -> bool:
    if given is None:
        return wanted in ("", "null")
    if isinstance(given, bool):
        return str(given).lower() == wanted.lower()
    if isinstance(given, int | float):
        return _number(wanted) == float(given)
    return str(given) == wanted


def _number(value: Any) -> float | None:
    try:
        return None if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
