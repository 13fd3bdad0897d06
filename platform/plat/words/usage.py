"""What runs use, as data and in words: time, CPU and GPU time, energy; and their price and CO2 at the user's rates."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from typing import Any

from plat.units import counted, duration, were

SUMS = ("seconds", "cpu_seconds", "gpu_seconds", "cpu_kwh", "gpu_kwh")
TAG = "plat.usage."  # of the tags of a run in MLflow
GPUS = "PLAT_GPUS"  # variable of a run: how many GPUs it was given, 0.5 for half of one


@dataclass(frozen=True)
class Usage:
    """What one or several runs used. None: not measured, for one of them at least.

    gpu_seconds  seconds times the GPUs that the runs had, used or not
    cpu_kwh      energy of processors and memory, the part of the runs
    gpu_kwh      energy of the GPUs; 0.0 for runs without any
    is_shared    other programs were seen on the GPUs
    unrecorded   attempts that left no record, because they were killed, and are not counted
    """

    seconds: float = 0.0
    cpu_seconds: float | None = 0.0
    gpu_seconds: float = 0.0
    cpu_kwh: float | None = 0.0
    gpu_kwh: float | None = 0.0
    is_shared: bool = False
    unrecorded: int = 0

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> Usage:
        """Return what `usage` of an outcome.json or result.json says."""
        known = {name: _number(facts.get(name)) for name in SUMS}
        gpu_seconds = known["gpu_seconds"] or 0.0
        return cls(
            known["seconds"] or 0.0,
            known["cpu_seconds"],
            gpu_seconds,
            known["cpu_kwh"],
            known["gpu_kwh"] if gpu_seconds else 0.0,
            facts.get("gpu_shared") in (True, "true"),
            int(_number(facts.get("unrecorded")) or 0),
        )

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.seconds + other.seconds,
            _sum(self.cpu_seconds, other.cpu_seconds),
            self.gpu_seconds + other.gpu_seconds,
            _sum(self.cpu_kwh, other.cpu_kwh),
            _sum(self.gpu_kwh, other.gpu_kwh),
            self.is_shared or other.is_shared,
            self.unrecorded + other.unrecorded,
        )

    @property
    def kwh(self) -> float | None:
        """The energy that was measured; None if none was."""
        parts = [self.cpu_kwh, self.gpu_kwh if self.gpu_seconds else None]
        known = [part for part in parts if part is not None]
        return sum(known) if known else None

    @property
    def measured(self) -> str:
        """Whose energy `kwh` is, in words."""
        if self.gpu_seconds and self.gpu_kwh is not None:
            return "of GPUs" if self.cpu_kwh is None else "of GPUs, processors and memory"
        return "of processors and memory" + (", not of GPUs" if self.gpu_seconds else "")

    def to_json(self, rates: Rates | None = None) -> dict[str, Any]:
        """Return the numbers, kwh, and with rates money, currency, money_without and kg_co2."""
        data = {**asdict(self), "kwh": self.kwh}
        return data if rates is None else data | rates.to_json(self)

    def text(self, rates: Rates | None = None) -> str:
        """Return a line: `1.9 h of runs, 3.4 h of CPU time, 7.6 GPU-hours, 2.1 kWh of GPUs, 15.96 EUR`."""
        without = f" (without {counted(self.unrecorded, 'attempt')} that left no record)" if self.unrecorded else ""
        parts = [f"{duration(self.seconds)} of runs{without}"]
        if self.cpu_seconds is not None:
            parts.append(f"{duration(self.cpu_seconds)} of CPU time")
        if self.gpu_seconds:
            shared = " (shared with other programs)" if self.is_shared else ""
            parts.append(f"{self.gpu_seconds / 3600:.3g} GPU-hours{shared}")
        if self.kwh is not None:
            parts.append(f"{self.kwh:.3g} kWh {self.measured}")
        return ", ".join([*parts, *(rates.texts(self) if rates else ())])


@dataclass(frozen=True)
class Rates:
    """What an hour of a GPU or of a CPU core and a kWh cost, in `currency`, and the CO2 of a kWh in kg.

    None: the user has not said. Where machines are rented by the hour, leave `kwh` out: it would be paid twice.
    """

    gpu_hour: float | None = None
    cpu_hour: float | None = None
    kwh: float | None = None
    kg_co2_per_kwh: float | None = None
    currency: str = ""

    def _parts(self, used: Usage) -> tuple[float | None, list[str]]:
        """Return the money, None without any rate or known amount, and what is missing in it."""
        amounts = {
            "GPUs": (self.gpu_hour, used.gpu_seconds / 3600),
            "CPU time": (self.cpu_hour, None if used.cpu_seconds is None else used.cpu_seconds / 3600),
            "electricity": (self.kwh, used.kwh),
        }
        asked = {name: (rate, amount) for name, (rate, amount) in amounts.items() if rate is not None}
        known = [rate * amount for rate, amount in asked.values() if amount is not None]
        return (sum(known) if known else None), [name for name, (_, amount) in asked.items() if amount is None]

    def to_json(self, used: Usage) -> dict[str, Any]:
        """Return money (null: not known), currency, money_without (what is not measured), and kg_co2."""
        money, missing = self._parts(used)
        return {"money": money, "currency": self.currency, "money_without": missing, "kg_co2": self._co2(used)}

    def _co2(self, used: Usage) -> float | None:
        return None if self.kg_co2_per_kwh is None or used.kwh is None else self.kg_co2_per_kwh * used.kwh

    def texts(self, used: Usage) -> list[str]:
        """Return money and CO2 in words, with what is not measured."""
        (money, missing), co2 = self._parts(used), self._co2(used)
        parts = f"{' and '.join(missing)}{', which' if money is not None else ''} {were(len(missing))} not measured"
        texts = [f"cost unknown, because {parts}"] if missing else []
        if money is not None:
            amount = f"{money:,.2f}" if money == 0 or money >= 0.01 else "less than 0.01"
            texts = [f"{amount} {self.currency}".rstrip() + (f" (without {parts})" if missing else "")]
        if self.kg_co2_per_kwh is not None:
            texts.append("CO2 unknown: no energy was measured" if co2 is None else f"{co2:.3g} kg CO2")
        return texts


def total(parts: Iterable[Usage]) -> Usage:
    return reduce(Usage.__add__, parts, Usage())


def usage_of(facts: Mapping[str, Any], gpus: int, nodes: int) -> dict[str, Any]:
    """Return what an attempt used, from what was measured on its first machine.

    gpus   on all its `nodes` machines, as the run asked for them. What a dispatcher gave it (GPUS) has precedence, then
           those that were measured

    Of a run on several machines only the seconds and GPU seconds are kept: the other machines are not measured.
    """
    if nodes > 1:
        facts = {"seconds": facts["seconds"], "gpus": gpus}
    given = os.environ.get(GPUS)
    had = float(given) if given else facts.get("gpus", gpus)
    return {**facts, "gpus": had, "gpu_seconds": round(facts["seconds"] * had, 3)}


def total_usage(attempts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the usage of a run from that of its attempts, {} for one without a record.

    A number that one of those with a record lacks is left out.
    """
    unrecorded, attempts = sum(not facts for facts in attempts), [facts for facts in attempts if facts]
    if not attempts:
        return {}
    sums = asdict(total(map(Usage.of, attempts)))
    whole: dict[str, Any] = {name: sums[name] for name in SUMS if sums[name] is not None}
    whole["gpus"] = max(facts.get("gpus", 0) for facts in attempts)
    whole |= ({"gpu_shared": True} if sums["is_shared"] else {}) | ({"unrecorded": unrecorded} if unrecorded else {})
    if all("gpu_percent" in facts for facts in attempts):
        seconds = sum(facts["gpu_seconds"] for facts in attempts)
        load = sum(facts["gpu_percent"] * facts["gpu_seconds"] for facts in attempts)
        whole["gpu_percent"] = round(load / seconds, 1) if seconds else attempts[-1]["gpu_percent"]
        whole["gpu_peak_mb"] = max(facts["gpu_peak_mb"] for facts in attempts)
    return whole


def _sum(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


def _number(value: Any) -> float | None:
    """Return a number, also from the text of a tag."""
    try:
        return None if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        return None
