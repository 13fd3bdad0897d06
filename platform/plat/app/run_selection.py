"""Parse and check the conditions of `--where`.

    --where task=digits                       an axis, a field of `plat.app.run_facts.FIELDS`, a config key, a metric
    --where lr=0.1 --where lr=0.01            several values of one key are alternatives
    --where task=digits --where success>0.5   conditions on several keys must all hold

Numbers are compared as numbers (0.90 equals 0.9), everything else as text. A run without a value satisfies `=null`
and `!=VALUE`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from plat.errors import SpecError
from plat.suggest import nearest, suggest

_CONDITION = re.compile(r"([^=<>!]+)(!=|<=|>=|==?|<|>)(.*)", re.DOTALL)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class Condition:
    """One condition: `key sign value`, and the text that the user typed."""

    key: str
    sign: str
    value: str
    written: str

    def holds(self, given: Any) -> bool:
        """Return True if the value `given` satisfies this condition. No text satisfies <, <=, > or >=."""
        if self.sign in _ORDER:
            number = _number(given)
            return number is not None and _ORDER[self.sign](number, float(self.value))
        return _same(given, self.value) == (self.sign == "=")


@dataclass(frozen=True)
class Selection:
    """Conditions on runs: conditions with `=` on one key are alternatives; all others must hold."""

    conditions: tuple[Condition, ...]

    def holds(self, value_of: Callable[[str], Any]) -> bool:
        """Return True for a run that satisfies the conditions; `value_of` maps a key to the run's value."""
        for key in dict.fromkeys(condition.key for condition in self.conditions):
            given = value_of(key)
            conditions = [condition for condition in self.conditions if condition.key == key]
            alternatives = [condition for condition in conditions if condition.sign == "="]
            if alternatives and not any(condition.holds(given) for condition in alternatives):
                return False
            if not all(condition.holds(given) for condition in conditions if condition.sign != "="):
                return False
        return True

    def check(
        self, known: Sequence[str], config_keys: Callable[[], Iterable[str]], values_of: Callable[[str], Iterable[Any]]
    ) -> None:
        """Raise SpecError for an unknown key, and for a value after = or != that no run has, although runs have others.

        known        the names of axes and columns
        config_keys  returns the keys of a run's config; called only for a key that may be misspelt
        values_of    returns the values that the runs have of a key
        """
        for condition in self.conditions:
            place = f"the command line: --where {condition.written}"
            values = [value for value in values_of(condition.key) if value is not None]
            is_metric = "/" in condition.key  # metrics have names of their own
            if not values and not is_metric and condition.key not in known:
                keys = list(config_keys())
                if condition.key not in keys:
                    what = f"no run has an axis, a column or a config key {condition.key!r}"
                    raise SpecError(what, where=place, fix=_fix_for_key(condition.key, known, keys))
            is_wrong = values and not any(_same(value, condition.value) for value in values)
            if condition.sign in ("=", "!=") and is_wrong:
                texts = list(dict.fromkeys(str(value) for value in values))
                what = f"no run has {condition.key}={condition.value}"
                raise SpecError(what, where=place, fix=suggest(condition.value, texts, "values"))


def _fix_for_key(key: str, known: Sequence[str], config_keys: Sequence[str]) -> str:
    """Suggest the nearest key (config keys first for a dotted key), else list the known keys."""
    first, second = (config_keys, known) if "." in key else (known, config_keys)
    near = nearest(key, first) or nearest(key, second)
    if near:
        return f"did you mean {near!r}?"
    return f"axes and columns: {', '.join(known)}; or a key of the configs, such as task or train.lr (plat options)"


def parse_where(texts: Sequence[str] | None) -> Selection:
    """Parse the `--where` options. Raises SpecError for a malformed condition. Without options, every run fits."""
    conditions = []
    for text in texts or ():
        place = f"the command line: --where {text}"
        match = _CONDITION.fullmatch(text)
        if match is None:
            what = f"--where takes KEY=VALUE, not {text!r}"
            raise SpecError(what, where=place, fix="for example --where task=digits")
        key, sign, value = (part.strip() for part in match.groups())
        sign = "=" if sign == "==" else sign
        if sign in _ORDER and _number(value) is None:
            what = f"{key}{sign} needs a number, and {value!r} is none"
            raise SpecError(what, where=place, fix=f"for example {key}{sign}0.5")
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
