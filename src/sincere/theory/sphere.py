"""The optimum on the sphere: free points, several classes, one loss (the toy example of Graf et al., 2021)."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor

import sincere.functional as SF
from sincere.checks import check_choice, check_temperature
from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.theory.arrangement import Arrangement, arrangement, class_counts, class_labels
from sincere.theory.cross_entropy import cross_entropy_bound, cross_entropy_descent, weight_radius
from sincere.theory.minimise import Descent, random_points, sphere_descent, unit
from sincere.theory.objectives import CHOICES, REDUCTIONS, point_loss, simplex_value
from sincere.theory.record import Record
from sincere.types import Reduction, SimilarityName


@dataclass(frozen=True)
class SphereOptimum(Record):
    """Where free points on the unit sphere end under one loss."""

    loss: str
    classes: int
    dim: int
    counts: tuple[int, ...]
    temperature: float | None  # None for cross-entropy
    similarity: str
    reduction: str
    class_balanced: bool
    weight_decay: float | None  # λ, for cross-entropy alone
    seed: int
    positions: Tensor  # (n, d), unit rows
    labels: Tensor  # (n,)
    arrangement: Arrangement
    value: float
    simplex_value: float  # the loss at the regular simplex with collapsed classes
    residual: float
    steps: int
    converged: bool
    seconds: float

    @property
    def balanced(self) -> bool:
        """Whether all classes have the same size, or the same weight as anchors and as contrasts (cross-entropy has no
        contrasts). Only then is the value at the simplex a lower bound."""
        contrastive = self.loss != "cross_entropy"
        weighed = contrastive and self.class_balanced and self.reduction == "class_mean" and min(self.counts) > 1
        return weighed or len(set(self.counts)) == 1

    @property
    def fits(self) -> bool:
        """Whether so many corners of a regular simplex fit into the space: K ≤ d + 1."""
        return self.classes <= self.dim + 1

    @property
    def floor(self) -> float | None:
        """The bound, for classes that count alike. Where K > d + 1 it holds and cannot be reached."""
        return self.simplex_value if self.balanced else None

    @property
    def excess(self) -> float | None:
        """Value above the bound."""
        return None if self.floor is None else self.value - self.floor

    @property
    def means(self) -> Tensor:
        """Of the classes, (K, d)."""
        return self.arrangement.means

    @property
    def cosines(self) -> Tensor:
        """Between class means, (K, K)."""
        return self.arrangement.cosines

    @property
    def collapse(self) -> float:
        """Largest 1 − cos(point, mean of its class)."""
        return self.arrangement.collapse

    @property
    def simplex_deviation(self) -> float:
        """Largest |cos(mean a, mean b) + 1/(K−1)|."""
        return self.arrangement.simplex_deviation

    def is_simplex(self, tolerance: float = 1e-3) -> bool:
        """Classes collapsed, and their means a regular simplex, each to within `tolerance`."""
        return self.arrangement.is_simplex(tolerance)

    @property
    def summary(self) -> str:
        """The finding in one sentence."""
        if self.is_simplex():
            reached = "" if self.excess is None else f", {self.excess:.1e} above the bound"
            return f"{self.loss} ends at the regular simplex of {self.classes} corners{reached}."
        place = f"off the simplex by {self.simplex_deviation:.2g}, largest cosine {self.arrangement.largest_cosine:.3f}"
        why = "" if self.fits else f" ({self.classes} corners need {self.classes - 1} dimensions, there are {self.dim})"
        classes = (
            "its classes collapse" if self.collapse <= 1e-3 else f"its classes do not collapse ({self.collapse:.2g})"
        )
        return f"{self.loss}: {classes}, {place}{why}."

    def _across(self) -> list[str]:
        """The line on cosines across classes; nothing with a single class."""
        largest, off = self.arrangement.largest_cosine, self.simplex_deviation
        line = f"  across classes cosine at most {largest:.6f}, off −1/(K−1) by at most {off:.1e}"
        return [line] if self.classes > 1 else []

    def __str__(self) -> str:
        at = f"λ = {self.weight_decay:g}" if self.temperature is None else f"τ = {self.temperature:g}"
        bound = "no bound, classes differ in size" if self.floor is None else f"bound {self.floor:.6f}"
        return "\n".join(
            [
                f"{self.loss}, {at}: {len(self.labels)} points of {self.classes} classes in {self.dim} dimensions",
                f"  value          {self.value:.6f}, {bound}, at the simplex {self.simplex_value:.6f}",
                f"  within classes 1 − cosine to the mean at most {self.collapse:.1e}",
                *self._across(),
                f"  {'converged' if self.converged else 'NOT converged'}: residual {self.residual:.1e} "
                f"after {self.steps} evaluations, {self.seconds:.1f} s",
            ]
        )


@usual_defaults()
def sphere_optimum(
    loss: str = "sincere",
    *,
    classes: int = 4,
    dim: int = 3,
    points: int = 400,
    counts: tuple[int, ...] | None = None,
    temperature: float = 0.5,
    similarity: SimilarityName = "cosine",
    reduction: Reduction = "mean",
    class_balanced: bool = False,
    weight_decay: float = 0.01,
    seed: int = 0,
    starts: int = 1,
    steps: int = 600,
    tolerance: float = 1e-4,
) -> SphereOptimum:
    """Minimise a loss over free points on the unit sphere, and measure where they end.

    The whole set is one batch. With classes of equal size and K ≤ d + 1 that is a regular simplex with collapsed
    classes; otherwise the record describes what was found, and claims nothing.

    >>> sphere_optimum("supcon", classes=3, dim=2, points=12).is_simplex(1e-4)
    True

    Args:
        loss: a contrastive loss, or "cross_entropy" with free weights and λ‖W‖².
        classes: number of classes K.
        dim: dimension of the space that holds the sphere.
        points: how many points, spread over the classes evenly.
        counts: points of each class, instead of `classes` and `points`.
        temperature: of the contrastive losses. Graf et al. have none, which is 1; SINCERE has 0.1. At 0.1 some losses
            keep a point on the wrong side from some starts, a local minimum: use `starts`.
        similarity: on the unit sphere all three give the same loss, for −½‖a − b‖² = ⟨a, b⟩ − 1.
        reduction: "mean" over anchors, or "class_mean", which weighs classes alike as anchors.
        class_balanced: whether classes weigh alike as contrasts, too (see the option of the losses).
        weight_decay: λ of cross-entropy.
        seed: of the first start.
        starts: how many random starts; the lowest value is returned.
        steps: evaluations of the loss at most, for each start.
        tolerance: of the residual, the largest tangential gradient over the largest gradient.
    """
    check_choice("loss", loss, CHOICES)
    check_choice("reduction", reduction, REDUCTIONS)
    check_temperature(temperature)
    if starts < 1 or dim < 1:
        raise OptionError(f"starts and dim must be at least 1: got starts={starts}, dim={dim}.")
    counts = class_counts(classes, points, counts)
    labels = class_labels(counts)
    options: dict[str, Any] = {"temperature": temperature, "reduction": reduction, "class_balanced": class_balanced}
    tried = [
        _cross_entropy(labels, counts, dim, weight_decay, start, steps, tolerance)
        if loss == "cross_entropy"
        else _contrastive(loss, labels, dim, {**options, "similarity": similarity}, start, steps, tolerance)
        for start in range(seed, seed + starts)
    ]
    best = min(range(starts), key=lambda place: tried[place][1].value)
    positions, descent = tried[best]
    at_simplex = (
        _cross_entropy_at_simplex(len(counts), weight_decay)
        if loss == "cross_entropy"
        else simplex_value(loss, counts, **options)
    )
    return SphereOptimum(
        loss=loss,
        classes=len(counts),
        dim=dim,
        counts=counts,
        temperature=None if loss == "cross_entropy" else temperature,
        similarity=similarity,
        reduction=reduction,
        class_balanced=class_balanced,
        weight_decay=weight_decay if loss == "cross_entropy" else None,
        seed=seed + best,
        positions=positions,
        labels=labels,
        arrangement=arrangement(positions, labels, len(counts)),
        value=descent.value,
        simplex_value=at_simplex,
        residual=descent.residual,
        steps=sum(each.steps for _, each in tried),
        converged=descent.converged,
        seconds=sum(each.seconds for _, each in tried),
    )


def _contrastive(
    loss: str,
    labels: Tensor,
    dim: int,
    options: dict[str, Any],
    seed: int,
    steps: int,
    tolerance: float,
) -> tuple[Tensor, Descent]:
    # Rows are of norm one already: normalising again would hide the radial gradient that the residual is measured by.
    on_sphere = "dot" if options["similarity"] == "cosine" else options["similarity"]
    objective = point_loss(loss, labels, **{**options, "similarity": on_sphere})
    start = random_points(len(labels), dim, seed)
    points, descent = sphere_descent(objective, start, steps=steps, tolerance=tolerance)
    if loss == "set_nce":
        # Large sets are minimised by the saddle point's formula, whose value is up to 0.0403/k off; report the loss.
        exact = SF.set_nce(points, labels, method="exact", **options)
        descent = Descent(float(exact), descent.residual, descent.steps, descent.converged, descent.seconds)
    return points, descent


def _cross_entropy(
    labels: Tensor,
    counts: tuple[int, ...],
    dim: int,
    weight_decay: float,
    seed: int,
    steps: int,
    tolerance: float,
) -> tuple[Tensor, Descent]:
    predicted = weight_radius(classes=len(counts), radius=1.0, weight_decay=weight_decay)
    points, _, descent = cross_entropy_descent(
        labels,
        classes=len(counts),
        dim=dim,
        to_features=unit,
        weight_decay=weight_decay,
        scale=2 * weight_decay * predicted,
        seed=seed,
        steps=steps,
        tolerance=tolerance,
    )
    return points, descent


def _cross_entropy_at_simplex(classes: int, weight_decay: float) -> float:
    """Cross-entropy + λ‖W‖² at aligned simplices of radius one and of the best radius."""
    best = weight_radius(classes=classes, radius=1.0, weight_decay=weight_decay)
    value = cross_entropy_bound(classes=classes, radius=1.0, weight_norm=classes**0.5 * best)
    return value + weight_decay * classes * best**2
