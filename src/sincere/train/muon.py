"""Muon: momentum whose every direction is moved alike, for the matrices inside a network."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

# A quintic that is steep at 0 and stays near 1 afterwards: five rounds bring any singular value between 0.01 and 1 into
# about 0.7 to 1.2, which is as good as 1 for an optimizer and much cheaper. From Jordan et al., 2024.
QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalised(matrices: Tensor, *, rounds: int = 5, dtype: torch.dtype | None = None) -> Tensor:
    """U Vᵀ of each matrix U S Vᵀ, nearly: Newton–Schulz rounds X ← aX + (bXXᵀ + c(XXᵀ)²)X, no decomposition.

    Args:
        matrices: (..., rows, columns).
        rounds: five are enough for an optimizer.
        dtype: in which precision; bfloat16 on a GPU and float32 elsewhere unless it is named.
    """
    a, b, c = QUINTIC
    x = matrices.to(dtype or (torch.bfloat16 if matrices.is_cuda else torch.float32))
    x = x.reshape(-1, *x.shape[-2:])
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    # The Frobenius norm is at least the largest singular value, so all of them start within [0, 1].
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    for _ in range(rounds):
        square = x @ x.mT
        # Each product with its sum in one operation: in bfloat16 that rounds once instead of three times.
        x = torch.baddbmm(x, torch.baddbmm(square, square, square, beta=b, alpha=c), x, beta=a)
    result: Tensor = (x.mT if tall else x).reshape(matrices.shape).to(matrices.dtype)
    return result


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised:

        v ← m v + g,   u = g + m v (Nesterov) or v,   w ← (1 − γβ) w − γ √max(1, rows/columns) · U Vᵀ of u

    *Source:* Jordan et al., 2024, "Muon: an optimizer for hidden layers in neural networks". *Conventions:* only for
    weights with two dimensions or more; a convolution's (out, in, h, w) counts as the matrix (out, in·h·w). Weight
    decay β is AdamW's, apart from the gradient. *Differs from* torch.optim.Muon, which takes matrices alone and
    averages, v ← m v + (1 − m) g: the direction is the same. Matrices of one shape are orthogonalised together.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.02,
        *,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.0,
        rounds: int = 5,
        dtype: torch.dtype | None = None,
    ) -> None:
        defaults = {
            "lr": lr,
            "momentum": momentum,
            "nesterov": nesterov,
            "weight_decay": weight_decay,
            "rounds": rounds,
            "dtype": dtype,
        }
        super().__init__(params, defaults)
        for group in self.param_groups:
            for weight in group["params"]:
                if weight.ndim < 2:
                    raise ValueError("Muon moves matrices: give biases, norms and scalars to another optimizer.")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """One step; no number is read from the device."""
        loss = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            by_shape: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for weight in group["params"]:
                if weight.grad is not None:
                    by_shape[weight.flatten(1).shape].append(weight)
            for shape, weights in by_shape.items():
                self._move(weights, shape, group)
        return loss

    def _move(self, weights: list[Tensor], shape: torch.Size, group: dict[str, Any]) -> None:
        directions = torch.stack([self._direction(weight, group).flatten(1) for weight in weights])
        updates = orthogonalised(directions, rounds=group["rounds"], dtype=group["dtype"])
        rate = group["lr"] * max(1.0, shape[0] / shape[1]) ** 0.5
        for weight, update in zip(weights, updates, strict=True):
            weight.mul_(1 - group["lr"] * group["weight_decay"])
            weight.add_(update.reshape(weight.shape), alpha=-rate)

    def _direction(self, weight: Tensor, group: dict[str, Any]) -> Tensor:
        gradient = weight.grad
        assert gradient is not None
        state = self.state[weight]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(weight)
        velocity: Tensor = state["momentum_buffer"]
        velocity.mul_(group["momentum"]).add_(gradient)
        return gradient.add(velocity, alpha=group["momentum"]) if group["nesterov"] else velocity
