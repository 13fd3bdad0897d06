"""The optimiser of the policy and of the critic."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from plat.errors import RunError

HALF = (torch.bfloat16, torch.float16)


class Adam:
    """AdamW over one flat vector of parameters (P,), with the gradient's norm clipped to `clip`.

    `flat` itself is trained, in place. A step of 1e-6 vanishes in half precision. Such parameters have float32 master
    weights, gradients and moments, and are the master weights rounded after each step.
    """

    def __init__(self, flat: Tensor, lr: float, betas: tuple[float, float], weight_decay: float, clip: float) -> None:
        self.parameter = flat.requires_grad_()
        self.master = flat.detach().float() if flat.dtype in HALF else self.parameter
        self.lr, self.clip = lr, clip
        self.optimiser = torch.optim.AdamW([self.master], lr=lr, betas=betas, weight_decay=weight_decay, fused=True)

    def step(self, lr_scale: float = 1.0) -> float:
        """Apply the accumulated gradient with the rate lr * lr_scale, clear it, and return its norm before clipping.

        Raises RunError (class `nan`) if the norm is not finite; the weights stay as they are.
        """
        grad = self.parameter.grad
        assert grad is not None
        grad = self.master.grad = grad.to(self.master.dtype)
        norm = float(torch.linalg.vector_norm(grad))
        if not np.isfinite(norm):
            raise RunError("the gradient is not a finite number", failure_class="nan", fix="lower the learning rate")
        if norm > self.clip:
            grad.mul_(self.clip / (norm + 1e-6))
        self.optimiser.param_groups[0]["lr"] = self.lr * lr_scale
        self.optimiser.step()
        self.parameter.grad = self.master.grad = None
        if self.master is not self.parameter:
            with torch.no_grad():
                self.parameter.copy_(self.master)
        return norm

    def state(self, prefix: str) -> dict[str, Tensor]:
        """Return the tensors for a checkpoint. They are not copies: later steps change them.

        <prefix>.parameters                   always
        <prefix>.step, .exp_avg, .exp_avg_sq  AdamW's step count and moments; absent before the first step
        <prefix>.master                       float32 master weights; only if the parameters are in half precision
        """
        state = self.optimiser.state.get(self.master) or {}
        kept = {f"{prefix}.{name}": value.detach() for name, value in state.items()}
        if self.master is not self.parameter:
            kept[f"{prefix}.master"] = self.master
        return {f"{prefix}.parameters": self.parameter.detach(), **kept}

    def restore(self, prefix: str, tensors: dict[str, Tensor]) -> None:
        """Copy in the tensors that `state(prefix)` returned; `tensors` may have others.

        Absent master weights are made from the parameters. If the step count is absent, the optimiser's moments stay as
        they are. Raises KeyError without `<prefix>.parameters`.
        """
        with torch.no_grad():
            self.parameter.copy_(tensors[f"{prefix}.parameters"])
            if self.master is not self.parameter:
                self.master.copy_(tensors.get(f"{prefix}.master", tensors[f"{prefix}.parameters"]))
        moments = {name: tensors.get(f"{prefix}.{name}") for name in ("step", "exp_avg", "exp_avg_sq")}
        if moments["step"] is not None:
            device, dtype = self.master.device, self.master.dtype
            # a fused kernel reads the step count, always of float32, from the memory of its device
            self.optimiser.state[self.master] = {
                name: value.to(device, value.dtype if name == "step" else dtype).clone()
                for name, value in moments.items()
                if value is not None
            }
