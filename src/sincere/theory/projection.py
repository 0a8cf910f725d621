"""What a projection head does to the optimum: free features, a head, and the loss on the head's output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.checks import check_choice
from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.tables import columns
from sincere.theory.arrangement import Arrangement, arrangement, class_labels
from sincere.theory.minimise import free_descent, sphere_residual, unit
from sincere.theory.objectives import point_loss, simplex_value
from sincere.theory.record import Record

HEADS = ("none", "linear", "mlp")


@dataclass(frozen=True)
class ProjectionRow:
    """One head: what the features in front of it and its outputs look like at the optimum."""

    head: str
    value: float
    excess: float  # above the loss at the simplex
    output: Arrangement  # of the head's output, which the loss sees
    features: Arrangement  # of the features in front of it
    output_within: float  # share of the variance of directions that is within classes: 0 where these collapse
    features_within: float  # the same in front of the head
    rank: int  # dimensions that the class means of the output span
    converged: bool


@dataclass(frozen=True)
class ProjectionOptimum(Record):
    """The optimum behind several heads."""

    loss: str
    classes: int
    members: int
    feature_dim: int
    dim: int
    temperature: float
    seed: int
    starts: int
    rows: tuple[ProjectionRow, ...]

    def of(self, head: str) -> ProjectionRow:
        """The row of one head."""
        for row in self.rows:
            if row.head == head:
                return row
        raise OptionError(f"head must be one that was run, {[row.head for row in self.rows]}: got {head!r}.")

    def __str__(self) -> str:
        title = (
            f"{self.loss}, τ = {self.temperature:g}: {self.classes} × {self.members} points, features of dimension "
            f"{self.feature_dim}, output of dimension {self.dim}, best of {self.starts} starts"
        )
        head = ("head", "above the simplex", "output: off it", "within", "rank", "features: off it", "within")
        table: list[tuple[str, ...]] = [head]
        for row in self.rows:
            output = (f"{row.output.simplex_deviation:.1e}", f"{row.output_within:.1e}", str(row.rank))
            features = (f"{row.features.simplex_deviation:.1e}", f"{row.features_within:.1e}")
            table.append((row.head, f"{row.excess:.1e}", *output, *features))
        return "\n".join([title, *columns(table)])


@usual_defaults()
def projection_optimum(
    loss: str = "sincere",
    *,
    heads: Sequence[str] = HEADS,
    classes: int = 4,
    members: int = 8,
    feature_dim: int = 8,
    dim: int = 3,
    hidden: int = 16,
    temperature: float = 0.5,
    seed: int = 0,
    starts: int = 3,
    steps: int = 400,
    tolerance: float = 1e-4,
) -> ProjectionOptimum:
    """Minimise a loss over free features and the head behind them, and measure both sides of the head.

    The features are an encoder's output, as free as they can be; the head is "none", "linear" or "mlp" (one hidden
    layer, tanh), and its output is normalised before the loss. All heads start from the same features.

    Args:
        loss: a contrastive loss.
        heads: which heads.
        classes: number of classes.
        members: points of each.
        feature_dim: dimension of the features.
        dim: dimension of the head's output; "none" has `feature_dim`.
        hidden: width of the MLP.
        temperature: of the loss.
        seed: of the features and of the heads, at the first start.
        starts: how many starts; the lowest value is kept, since a head can lose a dimension on the way.
        steps: evaluations at most, for each head.
        tolerance: of the residual at the head's output.
    """
    for head in heads:
        check_choice("head", head, HEADS)
    if members < 2 or starts < 1:
        raise OptionError(f"members must be at least 2 and starts at least 1: got {members} and {starts}.")
    if min(classes, feature_dim, dim, hidden) < 1:
        raise OptionError(
            "classes, feature_dim, dim and hidden must be at least 1: "
            f"got classes={classes}, feature_dim={feature_dim}, dim={dim}, hidden={hidden}."
        )
    labels = class_labels((members,) * classes)
    rows = []
    for head in heads:
        tried = []
        for start in range(seed, seed + starts):
            generator = torch.Generator().manual_seed(start)
            features = unit(torch.randn(len(labels), feature_dim, dtype=torch.float64, generator=generator))
            apply, weights = _head(head, feature_dim, hidden, dim, generator)
            tried.append(_row(head, loss, labels, features, apply, weights, temperature, steps, tolerance))
        rows.append(min(tried, key=lambda row: row.value))
    return ProjectionOptimum(loss, classes, members, feature_dim, dim, temperature, seed, starts, tuple(rows))


def _head(
    head: str, feature_dim: int, hidden: int, dim: int, generator: torch.Generator
) -> tuple[Callable[[Tensor], Tensor], list[Tensor]]:
    if head == "none":
        return unit, []
    sizes = [(feature_dim, dim)] if head == "linear" else [(feature_dim, hidden), (hidden, dim)]
    weights = [
        (torch.randn(*size, dtype=torch.float64, generator=generator) / size[0] ** 0.5).requires_grad_()
        for size in sizes
    ]
    if head == "linear":
        return (lambda x: unit(x @ weights[0])), weights
    return (lambda x: unit(torch.tanh(x @ weights[0]) @ weights[1])), weights


def _row(
    head: str,
    loss: str,
    labels: Tensor,
    start: Tensor,
    apply: Callable[[Tensor], Tensor],
    weights: list[Tensor],
    temperature: float,
    steps: int,
    tolerance: float,
) -> ProjectionRow:
    objective = point_loss(loss, labels, temperature=temperature)
    features = start.clone().requires_grad_()
    descent = free_descent(
        lambda: objective(apply(features)),
        [features, *weights],
        lambda: sphere_residual(objective, apply(features).detach()),
        steps=steps,
        tolerance=tolerance,
    )
    classes = int(labels.max()) + 1
    with torch.no_grad():
        output = apply(features)
        value = float(objective(output))
    counts = tuple(torch.bincount(labels).tolist())
    directions = unit(features.detach())  # the loss sees directions alone, and norms are as the start left them
    at_output = arrangement(output, labels, classes)
    return ProjectionRow(
        head=head,
        value=value,
        excess=value - simplex_value(loss, counts, temperature),
        output=at_output,
        features=arrangement(directions, labels, classes),
        output_within=_within_share(output, labels, classes),
        features_within=_within_share(directions, labels, classes),
        rank=int(torch.linalg.matrix_rank(at_output.means, rtol=1e-3)),
        converged=descent.converged,
    )


def _within_share(points: Tensor, labels: Tensor, classes: int) -> float:
    means = torch.stack([points[labels == c].mean(dim=0) for c in range(classes)])
    total = (points - points.mean(dim=0)).square().sum()
    return float((points - means[labels]).square().sum() / total)
