"""How points of several classes lie on a sphere: means, cosines, and their distance from the regular simplex."""

from dataclasses import dataclass
from numbers import Integral

import torch
from torch import Tensor

from sincere.checks import check_finite
from sincere.defaults import usual_defaults
from sincere.errors import InputError, OptionError
from sincere.losses.similarity import unit_rows
from sincere.theory.minimise import unit
from sincere.theory.record import Record


@dataclass(frozen=True)
class Arrangement(Record):
    """Class means, and what the theorem of Graf et al. says about them."""

    means: Tensor  # (K, d), not normalised
    cosines: Tensor  # (K, K), between the directions of the means
    collapse: float  # largest 1 − cos(point, mean of its class): 0 where every class is one direction
    simplex_deviation: float  # largest |cos(mean a, mean b) + 1/(K−1)|: 0 at the regular simplex
    largest_cosine: float  # of two classes; NaN with one class

    def is_simplex(self, tolerance: float = 1e-3) -> bool:
        """Classes collapsed, and their means a regular simplex, each to within `tolerance`."""
        return self.collapse <= tolerance and self.simplex_deviation <= tolerance


@usual_defaults()
def arrangement(points: Tensor, labels: Tensor, classes: int) -> Arrangement:
    """Measure `points` (n, d) of classes 0 … K−1, each with at least one point.

    A mean of zero has no direction: its cosines count as 0.
    """
    check_finite("points", points)
    sizes = torch.bincount(labels, minlength=classes).tolist()
    if len(sizes) != classes or 0 in sizes:
        raise InputError(
            f"each of the classes 0 to {classes - 1}, and no other, must have a point: got {sizes} points."
        )
    points = points.detach()
    means = torch.stack([points[labels == c].mean(dim=0) for c in range(classes)])
    directions = unit_rows(means)
    cosines = (directions @ directions.T).clamp(-1, 1)
    between = cosines[~torch.eye(classes, dtype=torch.bool, device=cosines.device)]
    own = (unit_rows(points) * directions[labels]).sum(dim=1)
    return Arrangement(
        means=means,
        cosines=cosines,
        collapse=max(0.0, float((1 - own).max())),
        simplex_deviation=float((between + 1 / (classes - 1)).abs().max()) if classes > 1 else 0.0,
        largest_cosine=float(between.max()) if classes > 1 else float("nan"),
    )


@usual_defaults()
def simplex(classes: int, dim: int) -> Tensor:
    """The corners of a regular simplex around the origin, unit rows (K, d); K ≤ d + 1."""
    if classes < 1:
        raise OptionError(f"a simplex needs at least one corner: got classes={classes}.")
    if classes > dim + 1:
        raise OptionError(f"a regular simplex of {classes} corners needs at least {classes - 1} dimensions: got {dim}.")
    centred = torch.eye(classes, dtype=torch.float64) - 1 / classes
    # Its rows span K − 1 dimensions; the left singular vectors give coordinates in them.
    left, singular, _ = torch.linalg.svd(centred)
    corners = torch.zeros(classes, dim, dtype=torch.float64)
    corners[:, : classes - 1] = (left * singular)[:, : classes - 1]
    return unit(corners) if classes > 1 else torch.eye(1, dim, dtype=torch.float64)


def class_labels(counts: tuple[int, ...]) -> Tensor:
    """0, 0, …, 1, 1, …: as many of each class as `counts` says."""
    return torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))


def class_counts(classes: int, points: int, counts: tuple[int, ...] | None) -> tuple[int, ...]:
    """Points per class: as given, or `points` spread evenly."""
    if counts is not None:
        if any(count < 1 or count != int(count) for count in counts) or not counts:
            raise OptionError(f"counts must give every class at least one point, in whole numbers: got {counts}.")
        return tuple(int(count) for count in counts)
    if not isinstance(classes, Integral) or not isinstance(points, Integral):
        raise OptionError(f"classes and points must be whole numbers: got classes={classes!r}, points={points!r}.")
    if classes < 1 or points < classes:
        raise OptionError(f"every one of {classes} classes needs a point: got points={points}.")
    return tuple(int(points) // int(classes) + (c < points % classes) for c in range(classes))
