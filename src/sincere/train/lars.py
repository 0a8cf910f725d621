"""LARS: a learning rate of its own for every layer, for large batches."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class LARS(torch.optim.Optimizer):
    """Layer-wise adaptive rate scaling.

        λ = η ‖w‖ / (‖g‖ + β ‖w‖),   v ← m v + γ λ (g + β w),   w ← w − v

    with the rate γ, the trust η, the weight decay β and the momentum m. So a step moves every weight by at most a
    share γ η of its own length, before momentum.

    *Source:* You, Gitman and Ginsburg, 2017, arXiv 1708.03888, Algorithm 1. *Conventions:* biases and norms (one
    dimension or none) take λ = 1, as is usual, since their lengths mean nothing; a weight or gradient of length 0
    takes λ = 1 too. *Differs from* implementations that put γ outside of the momentum, v ← m v + λ (g + β w) and
    w ← w − γ v: the two part while γ changes.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.1,
        *,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        trust: float = 1e-3,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; no number is read from the device."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.grad is not None:
                    self._move(weight, weight.grad, group)
        return loss

    def _move(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        decay = group["weight_decay"]
        update = gradient.add(weight, alpha=decay)
        if weight.ndim > 1:
            update.mul_(_local_rate(weight, gradient, group["trust"], decay))
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        velocity = state["momentum_buffer"]
        velocity.mul_(group["momentum"]).add_(update, alpha=group["lr"])
        weight.sub_(velocity)


def _local_rate(weight: Tensor, gradient: Tensor, trust: float, decay: float) -> Tensor:
    length = torch.linalg.vector_norm(weight)
    slope = torch.linalg.vector_norm(gradient)
    usable = (length > 0) & (slope > 0)
    return torch.where(usable, trust * length / torch.where(usable, slope + decay * length, 1), 1)
