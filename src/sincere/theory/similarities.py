"""What other similarities do to the optimum: on the sphere, in the ball, and without any bound on the norm."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.tables import columns
from sincere.theory.arrangement import arrangement, class_counts, class_labels, simplex
from sincere.theory.cross_entropy import into_ball
from sincere.theory.minimise import free_descent, random_points
from sincere.theory.objectives import point_loss, simplex_value
from sincere.theory.record import Record
from sincere.theory.sphere import SphereOptimum, sphere_optimum
from sincere.types import SimilarityName

SIMILARITIES: tuple[SimilarityName, ...] = ("cosine", "dot", "euclidean")


@dataclass(frozen=True)
class SimilarityRow:
    """The optimum of one similarity in one space."""

    similarity: str
    space: str  # "sphere": norm 1; "ball": norm at most 1
    value: float
    norms: tuple[float, float]  # least and largest at the optimum
    spread: float  # largest distance of a point from the mean of its class: 0 where classes collapse
    simplex_deviation: float
    largest_cosine: float
    converged: bool


@dataclass(frozen=True)
class SimilarityOptimum(Record):
    """One loss under every similarity, from the same starts."""

    loss: str
    classes: int
    dim: int
    counts: tuple[int, ...]
    temperature: float
    seed: int
    simplex_value: float
    rows: tuple[SimilarityRow, ...]
    sphere_difference: float  # largest difference of loss, or of gradient along the sphere, at the same points of it
    scales: tuple[float, ...]  # norms of a simplex that is stretched
    dot_by_scale: tuple[float, ...]  # and the loss of it with "dot"; () where K > d + 1
    euclidean_by_scale: tuple[float, ...]

    def of(self, similarity: str, space: str) -> SimilarityRow:
        """One row."""
        for row in self.rows:
            if (row.similarity, row.space) == (similarity, space):
                return row
        raise OptionError(f"there is no optimum of {similarity!r} in the {space!r}: see `rows`.")

    def __str__(self) -> str:
        title = (
            f"{self.loss}, τ = {self.temperature:g}: {sum(self.counts)} points of {self.classes} classes in "
            f"{self.dim} dimensions; at the simplex {self.simplex_value:.6f}"
        )
        table: list[tuple[str, ...]] = [("similarity", "space", "value", "norms", "spread", "off the simplex")]
        for row in self.rows:
            norms = f"{row.norms[0]:.3f}–{row.norms[1]:.3f}"
            spread, deviation = f"{row.spread:.1e}", f"{row.simplex_deviation:.1e}"
            table.append((row.similarity, row.space, f"{row.value:.6f}", norms, spread, deviation))
        lines = [title, *columns(table)]
        for name, values in (("dot", self.dot_by_scale), ("euclidean", self.euclidean_by_scale)):
            steps = ", ".join(f"{scale:g}: {value:.4g}" for scale, value in zip(self.scales, values, strict=False))
            if steps:
                lines.append(f"a simplex of norm …, {name}: {steps}")
        return "\n".join(lines)


@usual_defaults()
def similarity_optimum(
    loss: str = "sincere",
    *,
    classes: int = 4,
    dim: int = 3,
    points: int = 60,
    counts: tuple[int, ...] | None = None,
    temperature: float = 0.5,
    scales: Sequence[float] = (1.0, 2.0, 4.0, 8.0),
    seed: int = 0,
    starts: int = 3,
    steps: int = 1500,
    tolerance: float = 1e-4,
) -> SimilarityOptimum:
    """Minimise one loss under cosine, dot and euclidean similarity: on the sphere, and in the ball of radius one.

    On the sphere −½‖a − b‖² = ⟨a, b⟩ − 1, and a constant cancels from every loss of the family, so all three losses are
    equal. Without a bound on the norm, dot and euclidean have no minimum: stretching a simplex always lowers the loss.
    Each similarity keeps the lowest value of `starts` random starts. In the ball, a whole class can get stuck at the
    centre, so the sphere's optimum is tried as one more start.
    """
    if not all(0 < scale < math.inf for scale in scales):
        raise OptionError(f"scales must be positive and finite: got {tuple(scales)}.")
    counts = class_counts(classes, points, counts)
    classes, labels = len(counts), class_labels(counts)
    on_sphere = [
        sphere_optimum(
            loss,
            counts=counts,
            dim=dim,
            temperature=temperature,
            similarity=name,
            seed=seed,
            starts=starts,
            steps=steps,
        )
        for name in SIMILARITIES
    ]
    rows = [_on_sphere(found) for found in on_sphere]
    for name in SIMILARITIES[1:]:
        begin = [random_points(len(labels), dim, start) for start in range(seed, seed + starts)]
        begin.append(1.2 * on_sphere[0].positions)  # the sphere's own optimum, drawn in to norm sin 1.2 = 0.93
        tried = [_in_ball(loss, labels, start, temperature, name, steps, tolerance) for start in begin]
        rows.append(min(tried, key=lambda row: row.value))
    places = [random_points(len(labels), dim, seed), *(found.positions for found in on_sphere)]
    return SimilarityOptimum(
        loss=loss,
        classes=classes,
        dim=dim,
        counts=counts,
        temperature=temperature,
        seed=seed,
        simplex_value=simplex_value(loss, counts, temperature),
        rows=tuple(rows),
        sphere_difference=max(_difference_at(points, loss, labels, temperature) for points in places),
        scales=tuple(scales),
        dot_by_scale=_stretched(loss, labels, classes, dim, temperature, "dot", scales),
        euclidean_by_scale=_stretched(loss, labels, classes, dim, temperature, "euclidean", scales),
    )


def _on_sphere(found: SphereOptimum) -> SimilarityRow:
    return SimilarityRow(
        similarity=found.similarity,
        space="sphere",
        value=found.value,
        norms=(1.0, 1.0),
        spread=_spread(found.positions, found.labels, found.means),
        simplex_deviation=found.simplex_deviation,
        largest_cosine=found.arrangement.largest_cosine,
        converged=found.converged,
    )


def _difference_at(points: Tensor, loss: str, labels: Tensor, temperature: float) -> float:
    """How much loss and tangential gradient differ between the similarities at the same points of the sphere.

    They are not taken between the optima found: if many are equally good, as with six classes on the corners of an
    octahedron, rounding decides which of them is found.
    """
    on_sphere = torch.nn.functional.normalize(points, dim=1)
    found = []
    for similarity in SIMILARITIES:
        leaf = on_sphere.clone().requires_grad_()
        value = point_loss(loss, labels, temperature=temperature, similarity=similarity)(leaf)
        (gradient,) = torch.autograd.grad(value, leaf)
        along = gradient - (gradient * on_sphere).sum(dim=1, keepdim=True) * on_sphere
        found.append(torch.cat([value.detach().reshape(1), along.flatten()]))
    return max(float((one - found[0]).abs().max()) for one in found[1:])


def _in_ball(
    loss: str,
    labels: Tensor,
    start: Tensor,
    temperature: float,
    similarity: SimilarityName,
    steps: int,
    tolerance: float,
) -> SimilarityRow:
    objective = point_loss(loss, labels, temperature=temperature, similarity=similarity)
    free = start.clone().requires_grad_()

    def value() -> Tensor:
        return objective(into_ball(free))

    def residual() -> float:
        """Gradient of the free points over that of the points in the ball, where the edge holds them back."""
        leaf = into_ball(free.detach()).requires_grad_()
        (whole,) = torch.autograd.grad(objective(leaf), leaf)
        (left,) = torch.autograd.grad(value(), free)
        largest = float(whole.norm(dim=1).max())
        return float(left.norm(dim=1).max()) / largest if largest != 0 else 0.0

    descent = free_descent(value, [free], residual, steps=steps, tolerance=tolerance)
    points = into_ball(free.detach())
    norms = points.norm(dim=1)
    found = arrangement(points, labels, int(labels.max()) + 1)
    return SimilarityRow(
        similarity=similarity,
        space="ball",
        value=descent.value,
        norms=(float(norms.min()), float(norms.max())),
        spread=_spread(points, labels, found.means),
        simplex_deviation=found.simplex_deviation,
        largest_cosine=found.largest_cosine,
        converged=descent.converged,
    )


def _spread(points: Tensor, labels: Tensor, means: Tensor) -> float:
    return float((points - means[labels]).norm(dim=1).max())


def _stretched(
    loss: str,
    labels: Tensor,
    classes: int,
    dim: int,
    temperature: float,
    similarity: SimilarityName,
    scales: Sequence[float],
) -> tuple[float, ...]:
    """The loss of a simplex of each norm; () where there is no simplex."""
    if classes > dim + 1:
        return ()
    objective = point_loss(loss, labels, temperature=temperature, similarity=similarity)
    corners = simplex(classes, dim)[labels]
    return tuple(float(objective(scale * corners)) for scale in scales)
