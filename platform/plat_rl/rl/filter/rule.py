"""The contract of a filter rule: a function whose keyword parameters are the `filter.` keys that it reads.

Validation, warnings about keys without effect, and run ids use this declaration and nothing else. Rules import numpy
inside their functions, because `plat plan` reads the declarations.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from plat.errors import PluginError, SpecError
from plat.user_code import definition_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# The rule NAME is the function NAME in `plat_rl/rl/filter/rules.py`.
RULES = (
    *("none", "top_p", "top_p_softmax", "top_k", "top_k_abs", "min_p"),
    *("percentile", "random", "within_group", "random_within_group"),
)
RANKING = frozenset({"metric", "ddof", "keep", "include_zero", "on_empty"})  # read for every rule that ranks prompts
OPTIONS = RANKING | {"value", "low", "high", "at_least_one", "eps", "within_group_rounding"}


class Ranking(NamedTuple):
    """The prompts that a rule chooses from: N candidates of a batch of P prompts.

    scores   [N] their scores, in the order of the batch; random numbers for a rule that draws
    order    [N] positions in `scores`, the first to keep first; equal scores keep the order of the batch
    sign     1.0 where the largest scores come first, -1.0 where the smallest do
    prompts  P
    """

    scores: NDArray[np.float64]
    order: NDArray[np.int64]
    sign: float
    prompts: int


class Part(NamedTuple):
    """The part of a ranking that a rule keeps: `order[start:stop]`.

    why_empty  the reason if that is nothing, e.g. "count_is_zero"; by default `rule_keeps_none`. Else ignored
    """

    start: int
    stop: int
    why_empty: str | None = None


@dataclass(frozen=True)
class Rule:
    """A filter rule.

    select    of prompts: `(Ranking, *, KEYS) -> Part`; within groups: `(returns [P, G], draws [P, G] or None, *, KEYS)
              -> int64 [P, n]`, the kept trajectories of each group, rising
    reads     the `filter.` keys that have an effect with this rule
    within    whether it chooses trajectories within each group instead of prompts
    draws     whether it needs random numbers
    counts    whether it can keep as many prompts as Top-p (`filter.kept=as_top_p`)
    share     whether `filter.value` is a share, from 0 to 1
    """

    select: Callable[..., Any]
    reads: frozenset[str]
    within: bool = False
    draws: bool = False
    counts: bool = False
    share: bool = False

    def options(self, config: Any) -> dict[str, Any]:
        """Return the keyword arguments of `select` from a FilterConfig."""
        return {name: getattr(config, name) for name in _keywords(self.select)}


def rule(
    *, within: bool = False, draws: bool = False, counts: bool = False, share: bool = False
) -> Callable[[Callable[..., Any]], Rule]:
    """Return a decorator that makes a Rule of a function; see `Rule` for the flags.

    The decorator raises PluginError if a keyword parameter of the function is no option of filters, if the function
    never reads one, or if it reads an option that is not among its parameters.
    """

    def declared(select: Callable[..., Any]) -> Rule:
        keys = _keywords(select)
        steps = list(dis.get_instructions(select))
        used = {step.argval for step in steps if step.opname in ("LOAD_FAST", "LOAD_CLOSURE", "LOAD_DEREF")}
        outside = {step.argval for step in steps if step.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
        for wrong, why in (
            (keys - OPTIONS, "is not an option of filters"),
            (keys - used, "is declared but never read"),
            (OPTIONS & outside - select.__globals__.keys(), "is read but not declared"),
        ):
            if wrong:
                raise PluginError(
                    f"the filter rule {select.__name__!r}: {', '.join(sorted(wrong))} {why}",
                    where=definition_of(select),
                    fix=f"keyword parameters are the options that the rule reads: {', '.join(sorted(OPTIONS))}",
                )
        ranks = frozenset() if within or select.__name__ == "none" else RANKING
        return Rule(select, keys | ranks, within, draws, counts, share)

    return declared


def _keywords(select: Callable[..., Any]) -> frozenset[str]:
    parameters = inspect.signature(select).parameters.values()
    return frozenset(p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY)


@cache
def find_rule(name: str) -> Rule:
    """Return the rule of this name.

    Raises ValueError for a name that is not in RULES, PluginError if it is not declared correctly there.
    """
    if name not in RULES:
        raise ValueError(f"unknown filter rule {name!r}")
    found = getattr(import_module("plat_rl.rl.filter.rules"), name, None)
    if not isinstance(found, Rule):
        raise PluginError(
            f"the filter rule {name!r} is not defined",
            where="plat_rl/rl/filter/rules.py",
            fix=f"define the function {name} there, decorated with `@rule()`",
        )
    return found


def read_keys(name: str, kept: str) -> frozenset[str]:
    """Return the options of filters that have an effect with this rule; `kept` is the value of `filter.kept`."""
    return find_rule(name).reads - ({"value"} if kept == "as_top_p" else set())


def check_options(config: Any) -> None:
    """Raise SpecError if options of a FilterConfig contradict each other, ValueError if its rule is not in RULES."""
    chosen = find_rule(config.rule)
    if chosen.share and not 0 <= config.value <= 1:
        raise SpecError(f"{config.rule} takes a share, not {config.value:g}", where="filter.value", fix="from 0 to 1")
    if "low" in chosen.reads and config.low >= config.high:
        raise SpecError(
            f"the band from {config.low:g} to {config.high:g} is empty", where="filter.low", fix="low below high"
        )
    if config.kept == "own":
        return
    if not chosen.counts:
        raise SpecError(
            f"filter.kept={config.kept} sets the number of prompts, but the rule {config.rule} sets this number itself",
            where="filter.kept",
            fix=f"use filter.kept=own, or one of these rules: {', '.join(r for r in RULES if find_rule(r).counts)}",
        )
    if not config.include_zero and config.metric not in ("reward_std", "reward_variance"):
        raise SpecError(
            f"there may be fewer prompts with a {config.metric} above zero than Top-p keeps",
            where="filter.include_zero",
            fix="use filter.include_zero=true with filter.kept=as_top_p",
        )
