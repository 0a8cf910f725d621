"""What classes of unequal size do to the optimum: angles between large and small classes as the ratio grows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.errors import OptionError
from sincere.tables import columns
from sincere.theory.record import Record
from sincere.theory.sphere import SphereOptimum, sphere_optimum
from sincere.types import Reduction

MERGED = 0.99  # two classes whose means have this cosine are taken as one: 8 degrees


@dataclass(frozen=True)
class ImbalanceRow:
    """One loss at one ratio of class sizes; cosines are means over pairs of class means."""

    loss: str
    ratio: int  # size of a large class over that of a small one
    counts: tuple[int, ...]
    majority_cosine: float  # between large classes; NaN with one of them
    between_cosine: float  # between a large and a small class
    minority_cosine: float  # between small classes; NaN with one of them
    collapse: float
    value: float
    simplex_value: float  # the value at the regular simplex; the optimum lies below it
    converged: bool

    @property
    def minority_angle(self) -> float:
        """Between the means of small classes, in degrees; NaN with one of them."""
        if math.isnan(self.minority_cosine):
            return math.nan
        return math.degrees(math.acos(max(-1.0, min(1.0, self.minority_cosine))))

    @property
    def merged(self) -> bool:
        """Minority collapse: small classes share one direction."""
        return self.minority_cosine > MERGED


@dataclass(frozen=True)
class ImbalanceOptimum(Record):
    """The optimum by loss and ratio."""

    majority: int  # large classes
    minority: int  # small classes
    members: int  # of a small class
    dim: int
    temperature: float
    weight_decay: float
    reduction: str
    class_balanced: bool
    seed: int
    rows: tuple[ImbalanceRow, ...]

    def of(self, loss: str) -> tuple[ImbalanceRow, ...]:
        """The rows of one loss, by ratio."""
        return tuple(row for row in self.rows if row.loss == loss)

    def merging_ratio(self, loss: str) -> int | None:
        """The least ratio tried at which the small classes share one direction; None if they never do."""
        return next((row.ratio for row in self.of(loss) if row.merged), None)

    def __str__(self) -> str:
        classes = self.majority + self.minority
        weighed = f"reduction {self.reduction}" + (", class-balanced" if self.class_balanced else "")
        title = (
            f"{self.majority} large and {self.minority} small classes of {self.members} in {self.dim} dimensions, "
            f"{weighed}; the simplex has cosine {-1 / (classes - 1):.3f} everywhere"
        )
        table: list[tuple[str, ...]] = [("loss", "ratio", "large–large", "large–small", "small–small", "below simplex")]
        for row in self.rows:
            cosines = (row.majority_cosine, row.between_cosine, row.minority_cosine)
            shown = tuple("–" if math.isnan(cosine) else f"{cosine:.3f}" for cosine in cosines)
            below = round(row.simplex_value - row.value, 3) + 0.0  # no −0.000
            table.append((row.loss, str(row.ratio), *shown, f"{below:.3f}"))
        return "\n".join([title, *columns(table)])


@usual_defaults()
def imbalance_optimum(
    losses: Sequence[str] = ("sincere", "supcon", "cross_entropy"),
    *,
    ratios: Sequence[int] = (1, 2, 5, 10, 25),
    majority: int = 2,
    minority: int = 2,
    members: int = 4,
    dim: int = 3,
    temperature: float = 0.5,
    weight_decay: float = 0.01,
    reduction: Reduction = "mean",
    class_balanced: bool = False,
    seed: int = 0,
    starts: int = 1,
    steps: int = 600,
) -> ImbalanceOptimum:
    """Minimise each loss over free points on the sphere, with some classes `ratio` times as large as the others.

    The whole set is one batch. `reduction` and `class_balanced` concern the contrastive losses; cross-entropy is the
    mean over points.
    """
    if majority < 1 or minority < 1 or members < 1 or any(ratio < 1 for ratio in ratios):
        raise OptionError(
            "there must be at least one large and one small class, members and ratios of at least 1: "
            f"got majority={majority}, minority={minority}, members={members}, ratios={tuple(ratios)}."
        )
    rows = []
    for loss in losses:
        for ratio in ratios:
            found = sphere_optimum(
                loss,
                counts=(members * ratio,) * majority + (members,) * minority,
                dim=dim,
                temperature=temperature,
                weight_decay=weight_decay,
                reduction=reduction,
                class_balanced=class_balanced,
                seed=seed,
                starts=starts,
                steps=steps,
            )
            rows.append(_row(found, ratio, majority))
    return ImbalanceOptimum(
        majority=majority,
        minority=minority,
        members=members,
        dim=dim,
        temperature=temperature,
        weight_decay=weight_decay,
        reduction=reduction,
        class_balanced=class_balanced,
        seed=seed,
        rows=tuple(rows),
    )


def _row(found: SphereOptimum, ratio: int, majority: int) -> ImbalanceRow:
    cosines = found.cosines
    return ImbalanceRow(
        loss=found.loss,
        ratio=ratio,
        counts=found.counts,
        majority_cosine=_mean_off_diagonal(cosines[:majority, :majority]),
        between_cosine=float(cosines[:majority, majority:].mean()),
        minority_cosine=_mean_off_diagonal(cosines[majority:, majority:]),
        collapse=found.collapse,
        value=found.value,
        simplex_value=found.simplex_value,
        converged=found.converged,
    )


def _mean_off_diagonal(square: Tensor) -> float:
    return float(square[~torch.eye(len(square), dtype=torch.bool)].mean()) if len(square) > 1 else float("nan")
