"""Minimisers of functions of free points: L-BFGS in float64, run until a scale-free residual is small.

On the sphere the residual is the largest tangential gradient of any point as a share of the largest whole gradient.
A loss of 1e-4 at a low temperature has small gradients everywhere; the share tells a flat place from a minimum.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.errors import OptionError

CHUNK = 20  # iterations between two looks at the residual
STALLED = 4  # after so many looks without a decrease, what is left is rounding
# torch's L-BFGS learns nothing from a step along which the gradient changes by less than 1e-10. Where a loss is
# flat all steps are like that, and descent would crawl: so it is shown a loss this many times as steep.
STEEPER = 1e8


@dataclass(frozen=True)
class Descent:
    """Where a minimisation ended."""

    value: float
    residual: float
    steps: int  # evaluations of the objective with its gradient
    converged: bool
    seconds: float


def unit(rows: Tensor) -> Tensor:
    """Rows scaled to norm one; free points start away from zero and are never drawn to it."""
    norms: Tensor = rows.norm(dim=-1, keepdim=True)
    return rows / norms


def random_points(points: int, dim: int, seed: int) -> Tensor:
    """Uniform on the unit sphere, float64."""
    generator = torch.Generator().manual_seed(seed)
    return unit(torch.randn(points, dim, dtype=torch.float64, generator=generator))


def sphere_descent(
    objective: Callable[[Tensor], Tensor], start: Tensor, *, steps: int = 600, tolerance: float = 1e-6
) -> tuple[Tensor, Descent]:
    """Unit rows that minimise `objective`, from the unit rows `start`."""
    if start.shape[1] < 2:
        raise OptionError("points on a sphere need two dimensions to move in, dim=2 or more: on a line there are ±1.")
    free = start.clone().requires_grad_()
    descent = free_descent(
        lambda: objective(unit(free)),
        [free],
        lambda: sphere_residual(objective, unit(free.detach())),
        steps=steps,
        tolerance=tolerance,
    )
    return unit(free.detach()), descent


def sphere_residual(objective: Callable[[Tensor], Tensor], points: Tensor) -> float:
    """Largest tangential gradient of a point over the largest gradient of a point; 0 where there is no gradient."""
    leaf = points.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(objective(leaf), leaf)
    tangential = gradient - (gradient * points).sum(dim=1, keepdim=True) * points
    whole = float(gradient.norm(dim=1).max())
    # Not `whole > 0`, which NaN is not either: where the loss is no number nothing has converged.
    return float(tangential.norm(dim=1).max()) / whole if whole != 0 else 0.0


def free_descent(
    objective: Callable[[], Tensor],
    parameters: list[Tensor],
    residual: Callable[[], float],
    *,
    steps: int,
    tolerance: float,
) -> Descent:
    """Minimise `objective` over `parameters` in place, until `residual` is at most `tolerance`."""
    started = time.perf_counter()
    optimizer = torch.optim.LBFGS(
        parameters,
        max_iter=CHUNK,
        history_size=20,
        tolerance_grad=0,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )
    evaluations = 0

    def closure() -> Tensor:
        nonlocal evaluations
        evaluations += 1
        optimizer.zero_grad()
        value = STEEPER * objective()
        value.backward()  # type: ignore[no-untyped-call]
        return value

    lowest, since = float("inf"), 0
    left = residual()
    while left > tolerance and evaluations < steps and since < STALLED:
        optimizer.step(closure)  # type: ignore[no-untyped-call]
        with torch.no_grad():
            value = float(objective())
        lowest, since = (value, 0) if value < lowest else (lowest, since + 1)
        left = residual()
    with torch.no_grad():
        value = float(objective())
    return Descent(value, left, evaluations, left <= tolerance, time.perf_counter() - started)


def largest_gradient(objective: Callable[[], Tensor], parameters: list[Tensor]) -> float:
    """The residual of a problem without constraints: the largest entry of the gradient."""
    gradients = torch.autograd.grad(objective(), parameters)
    return max(float(gradient.abs().max()) for gradient in gradients)
