"""Compare numbers of the device with those of the CPU, and record how far they are apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass
class Comparison:
    """Collects differences; `settle` fails with all that are too large, so that one run shows every one of them.

    record   pytest's `record_property`, called with <name> and <name>/tolerance
    """

    record: Callable[[str, Any], None]
    failures: list[str] = field(default_factory=list)

    def close(self, name: str, device: Any, cpu: Any, tolerance: float, scale: float = 1.0) -> None:
        """Note the largest absolute difference between two numbers or arrays, divided by `scale`."""
        mine, other = (torch.as_tensor(value).detach().cpu().double() for value in (device, cpu))
        if mine.shape != other.shape:
            self.failures.append(f"{name}: shape {tuple(mine.shape)}, not {tuple(other.shape)}")
            return
        differences = torch.where(mine == other, 0.0, (mine - other).abs())  # equal infinities do not differ
        differences[mine.isnan() & other.isnan()] = 0.0
        largest = float(differences.nan_to_num(nan=torch.inf).max()) / scale if differences.numel() else 0.0
        self._note(name, largest, tolerance)

    def in_norm(self, name: str, device: torch.Tensor, cpu: torch.Tensor, tolerance: float) -> None:
        """Note the norm of the difference between two tensors, divided by the norm of the second."""
        mine, other = (value.detach().cpu().double() for value in (device, cpu))
        self._note(name, float((mine - other).norm() / other.norm()), tolerance)

    def metrics(self, name: str, device: Mapping[str, float], cpu: Mapping[str, float], tolerance: float) -> None:
        """Note the largest difference of the metrics of the same names, each divided by its size if that is over 1."""
        if device.keys() != cpu.keys():
            self.failures.append(f"{name}: {sorted(device.keys() ^ cpu.keys())} are in one of the two only")
            return
        apart = {key: abs(device[key] - cpu[key]) / max(1.0, abs(cpu[key])) for key in cpu}
        worst = max(apart, key=lambda key: apart[key])
        self.record(f"{name}/worst", worst)
        self._note(name, apart[worst], tolerance)

    def equal(self, name: str, device: Any, cpu: Any) -> None:
        self.record(name, "equal" if device == cpu else "differ")
        if device != cpu:
            self.failures.append(f"{name}: {device!r}, not {cpu!r}")

    def _note(self, name: str, difference: float, tolerance: float) -> None:
        self.record(name, difference)
        self.record(f"{name}/tolerance", tolerance)
        if not difference <= tolerance:
            self.failures.append(f"{name}: {difference:.3g} apart, more than {tolerance:g}")

    def settle(self) -> None:
        assert not self.failures, "\n".join(self.failures)
