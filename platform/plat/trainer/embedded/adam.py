"""The optimiser of the policy and of the critic."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from plat.errors import RunError

HALF = (torch.bfloat16, torch.float16)


class Adam:
    """AdamW over one flat vector of parameters; the norm of the gradient is clipped to `clip` before each step.

    Parameters of half precision, in which a step of 1e-6 vanishes, follow float32 master weights: the gradient and both
    moments are float32, too, and the parameters are the master weights rounded after each step.
    """

    def __init__(self, flat: Tensor, lr: float, betas: tuple[float, float], weight_decay: float, clip: float) -> None:
        self.parameter = flat.requires_grad_()
        self.master = flat.detach().float() if flat.dtype in HALF else self.parameter
        self.lr, self.clip = lr, clip
        self.optimiser = torch.optim.AdamW([self.master], lr=lr, betas=betas, weight_decay=weight_decay, fused=True)

    def step(self, lr_scale: float = 1.0) -> float:
        """Apply the accumulated gradient; returns its norm before clipping. RunError (nan) leaves the weights alone."""
        grad = self.parameter.grad
        assert grad is not None
        grad = self.master.grad = grad.to(self.master.dtype)
        norm = float(torch.linalg.vector_norm(grad))
        if not np.isfinite(norm):
            raise RunError("the gradient is not a finite number", failure_class="nan", mend="lower the learning rate")
        if norm > self.clip:
            grad.mul_(self.clip / (norm + 1e-6))
        self.optimiser.param_groups[0]["lr"] = self.lr * lr_scale
        self.optimiser.step()
        self.parameter.grad = self.master.grad = None
        self._round()
        return norm

    def _round(self) -> None:
        """Bring the parameters after the master weights."""
        if self.master is not self.parameter:
            with torch.no_grad():
                self.parameter.copy_(self.master)

    def state(self, prefix: str) -> dict[str, Tensor]:
        """Parameters, step count, moments and master weights, named `prefix`.*, as a checkpoint keeps them."""
        state = self.optimiser.state.get(self.master) or {}
        kept = {f"{prefix}.{name}": value.detach() for name, value in state.items()}
        if self.master is not self.parameter:
            kept[f"{prefix}.master"] = self.master
        return {f"{prefix}.parameters": self.parameter.detach(), **kept}

    def restore(self, prefix: str, tensors: dict[str, Tensor]) -> None:
        """Go on from what `state(prefix)` gave."""
        with torch.no_grad():
            self.parameter.copy_(tensors[f"{prefix}.parameters"])
            if self.master is not self.parameter:
                self.master.copy_(tensors.get(f"{prefix}.master", tensors[f"{prefix}.parameters"]))
        moments = {name: tensors.get(f"{prefix}.{name}") for name in ("step", "exp_avg", "exp_avg_sq")}
        if moments["step"] is not None:
            device, dtype = self.master.device, self.master.dtype
            self.optimiser.state[self.master] = {
                name: value.clone() if name == "step" else value.to(device, dtype).clone()
                for name, value in moments.items()
                if value is not None
            }
