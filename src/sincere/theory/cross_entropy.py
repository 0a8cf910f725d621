"""Where L2-regularised cross-entropy leads when features and weights are free (Graf et al., 2021, Theorem 1)."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.theory.arrangement import Arrangement, arrangement, class_counts, class_labels
from sincere.theory.minimise import Descent, free_descent, unit
from sincere.theory.record import Record


@dataclass(frozen=True)
class CrossEntropyOptimum(Record):
    """Free features of norm at most ρ and free weights under cross-entropy + λ‖W‖²."""

    classes: int
    dim: int
    counts: tuple[int, ...]
    radius: float  # ρ
    weight_decay: float  # λ
    seed: int
    features: Tensor  # (n, d)
    weights: Tensor  # (K, d)
    of_features: Arrangement
    of_weights: Arrangement
    predicted_radius: float  # the root of 2λr(e^{Kρr/(K−1)} + K − 1) = ρ
    weight_radii: tuple[float, float]  # least and largest ‖w_c‖ found
    feature_norms: tuple[float, float]  # least and largest ‖z_i‖ found
    alignment: float  # least cos(w_c, ζ_c)
    value: float  # cross-entropy alone
    bound: float  # log(1 + (K−1) e^{−ρ√K‖W‖/(K−1)}) at the ‖W‖ found
    regularised: float  # cross-entropy + λ‖W‖²
    predicted_regularised: float  # the same at the predicted radius
    residual: float
    steps: int
    converged: bool
    seconds: float

    @property
    def radius_error(self) -> float:
        """Largest | ‖w_c‖ − predicted |, as a share of the prediction."""
        return max(abs(r - self.predicted_radius) for r in self.weight_radii) / self.predicted_radius

    @property
    def excess(self) -> float:
        """Cross-entropy above its bound."""
        return self.value - self.bound

    @property
    def balanced(self) -> bool:
        """Whether every class has as many points; the theorem is about this case."""
        return len(set(self.counts)) == 1

    def __str__(self) -> str:
        low, high = self.weight_radii
        return "\n".join(
            [
                f"cross-entropy, {self.classes} classes in {self.dim} dimensions, {sum(self.counts)} points, "
                f"ρ = {self.radius:g}, λ = {self.weight_decay:g}",
                f"  radius of the weights   {low:.6f} to {high:.6f}, the equation says {self.predicted_radius:.6f}",
                f"  cross-entropy           {self.value:.6f}, bound {self.bound:.6f}, excess {self.excess:.1e}",
                f"  features                norms {self.feature_norms[0]:.6f} to {self.feature_norms[1]:.6f}, "
                f"collapse {self.of_features.collapse:.1e}, "
                f"off the simplex by {self.of_features.simplex_deviation:.1e}",
                f"  weights                 off the simplex by {self.of_weights.simplex_deviation:.1e}, "
                f"least cosine to the features {self.alignment:.6f}",
                f"  {_ending(self.converged, self.residual, self.steps)}",
            ]
        )


def _ending(converged: bool, residual: float, steps: int) -> str:
    return f"{'converged' if converged else 'NOT converged'}: residual {residual:.1e} after {steps} evaluations"


def weight_radius(*, classes: int, radius: float, weight_decay: float) -> float:
    """The root r of 2λr(e^{Kρr/(K−1)} + K − 1) − ρ = 0: the norm of every weight at the optimum.

    Source: Graf et al., 2021, the corollary on L2-regularised cross-entropy. The left side rises in r, so that
    halving an interval finds the only root.

    >>> round(weight_radius(classes=4, radius=1.0, weight_decay=0.01), 4)
    2.2262
    """
    if classes < 2 or not 0 < radius < math.inf or not 0 < weight_decay < math.inf:
        raise OptionError(
            "the radius equation needs at least two classes, and a radius and a weight_decay above 0 and finite: "
            f"got classes={classes}, radius={radius}, weight_decay={weight_decay}."
        )
    rate = classes * radius / (classes - 1)

    def too_large(r: float) -> bool:
        # In logarithms, since e^{Kρr/(K−1)} overflows long before the root is passed, and products leave the range.
        if r == 0:
            return False
        return math.log(2) + math.log(weight_decay) + math.log(r) + _log_add(
            rate * r, math.log(classes - 1)
        ) > math.log(radius)

    high = 1.0
    while not too_large(high):
        high *= 2
    while too_large(high / 2):  # down to within a factor of two, so that small roots have as many digits
        high /= 2
    low = high / 2
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (low, middle) if too_large(middle) else (middle, high)
    return (low + high) / 2


def _log_add(a: float, b: float) -> float:
    return max(a, b) + math.log1p(math.exp(-abs(a - b)))


def cross_entropy_bound(*, classes: int, radius: float, weight_norm: float) -> float:
    """log(1 + (K−1) e^{−ρ√K‖W‖_F/(K−1)}): no features of norm at most ρ have less (Graf et al., Theorem 1)."""
    if classes < 2 or not 0 <= radius < math.inf or not 0 <= weight_norm < math.inf:
        raise OptionError(
            "the bound needs at least two classes, and a radius and a weight_norm from 0 and finite: "
            f"got classes={classes}, radius={radius}, weight_norm={weight_norm}."
        )
    return math.log1p((classes - 1) * math.exp(-radius * math.sqrt(classes) * weight_norm / (classes - 1)))


@usual_defaults()
def cross_entropy_optimum(
    *,
    classes: int = 4,
    dim: int = 3,
    points: int = 400,
    counts: tuple[int, ...] | None = None,
    radius: float = 1.0,
    weight_decay: float = 0.01,
    seed: int = 0,
    steps: int = 2000,
    tolerance: float = 1e-4,
) -> CrossEntropyOptimum:
    """Minimise cross-entropy + λ‖W‖² over features in the ball of radius ρ and over weights, and measure the result.

    With equal classes and K ≤ d + 1 both end at aligned regular simplices, the features on the sphere and the weights
    at the radius that `weight_radius` gives.
    """
    if dim < 1:
        raise OptionError(f"dim must be at least 1: got {dim}.")
    counts = class_counts(classes, points, counts)
    classes, labels = len(counts), class_labels(counts)
    predicted = weight_radius(classes=classes, radius=radius, weight_decay=weight_decay)
    features, weights, descent = cross_entropy_descent(
        labels,
        classes=classes,
        dim=dim,
        to_features=lambda free: radius * into_ball(free),
        weight_decay=weight_decay,
        scale=2 * weight_decay * predicted,
        seed=seed,
        steps=steps,
        tolerance=tolerance,
    )
    of_features = arrangement(features, labels, classes)
    norm, norms = float(weights.norm()), weights.norm(dim=1)
    at_optimum = cross_entropy_bound(classes=classes, radius=radius, weight_norm=math.sqrt(classes) * predicted)
    return CrossEntropyOptimum(
        classes=classes,
        dim=dim,
        counts=counts,
        radius=radius,
        weight_decay=weight_decay,
        seed=seed,
        features=features,
        weights=weights,
        of_features=of_features,
        of_weights=arrangement(weights, torch.arange(classes), classes),
        predicted_radius=predicted,
        weight_radii=(float(norms.min()), float(norms.max())),
        feature_norms=(float(features.norm(dim=1).min()), float(features.norm(dim=1).max())),
        alignment=float((unit(weights) * unit(of_features.means)).sum(dim=1).min()),
        value=descent.value - weight_decay * norm**2,
        bound=cross_entropy_bound(classes=classes, radius=radius, weight_norm=norm),
        regularised=descent.value,
        predicted_regularised=at_optimum + weight_decay * classes * predicted**2,
        residual=descent.residual,
        steps=descent.steps,
        converged=descent.converged,
        seconds=descent.seconds,
    )


def into_ball(free: Tensor) -> Tensor:
    """Every row into the unit ball, by sin(‖x‖)/‖x‖: smooth, and its edge is reached at ‖x‖ = π/2, not at infinity."""
    return free * torch.sinc(free.norm(dim=1, keepdim=True) / math.pi)


def cross_entropy_descent(
    labels: Tensor,
    *,
    classes: int,
    dim: int,
    to_features: Callable[[Tensor], Tensor],
    weight_decay: float,
    scale: float,
    seed: int,
    steps: int,
    tolerance: float,
) -> tuple[Tensor, Tensor, Descent]:
    """Features, weights, and how the minimisation went; the residual is in units of `scale`, the pull of λ on a w."""
    generator = torch.Generator().manual_seed(seed)
    # A point has an n-th of the loss and a weight has a K-th: in steps of √n both are curved alike, and L-BFGS is fast.
    stretch = math.sqrt(len(labels))
    free = unit(torch.randn(len(labels), dim, dtype=torch.float64, generator=generator)) / stretch
    free.requires_grad_()
    # Of different lengths: on a line unit weights may start as one and the same, and never part.
    weights = torch.randn(classes, dim, dtype=torch.float64, generator=generator).requires_grad_()

    def objective() -> Tensor:
        return F.cross_entropy(to_features(stretch * free) @ weights.T, labels) + weight_decay * weights.square().sum()

    def residual() -> float:
        of_points, of_weights = torch.autograd.grad(objective(), [free, weights])
        return max(stretch * float(of_points.abs().max()), float(of_weights.abs().max())) / scale

    descent = free_descent(objective, [free, weights], residual, steps=steps, tolerance=tolerance)
    return to_features(stretch * free.detach()), weights.detach(), descent
