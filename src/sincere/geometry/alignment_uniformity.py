"""Alignment and uniformity: are members of a class close, and are all samples spread over the sphere?

Source: Wang and Isola 2020, arXiv:2005.10242, Section 4. Their positives are two views of one image; here they are two
samples of one class.
"""

import math

import torch
from torch import Tensor

from sincere.checks import is_number
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import OptionError
from sincere.geometry.directions import Directions, check_not_empty, directions_of
from sincere.geometry.pair_pass import Tile, listen, same_class
from sincere.geometry.pair_similarity import similarity_by_class_pair
from sincere.nearest.precision import full_precision

LARGEST_T = 20  # e^(−4t) is then still a float32


class GaussianPotential:
    """Adds up e^(−t‖x − y‖²) = e^(2t (cos − 1)) over the pairs of different samples, whatever their class."""

    def __init__(self, rows: Directions, t: float) -> None:
        _check_number("t", t)
        if not 0 < t <= LARGEST_T:
            raise OptionError(f"t must lie above 0 and be at most {LARGEST_T}: got {t}. Wang and Isola use 2.")
        self.rows, self.t, self.samples = rows, t, rows.rows.shape[0]
        # A zero vector has no direction; it is at distance one from every unit vector.
        is_zero = (rows.rows.square().sum(dim=1) == 0).float()
        self.is_zero = is_zero if bool(is_zero.any()) else None
        self.total = torch.zeros((), dtype=torch.float64, device=rows.rows.device)

    def fresh(self) -> "GaussianPotential":
        """Another one, with a sum of zero."""
        return GaussianPotential(self.rows, self.t)

    def join(self, other: "GaussianPotential") -> None:
        """Add another one's sum."""
        self.total += other.total

    def add(self, tile: Tile) -> None:
        """Add one tile."""
        half = torch.sub(tile.cosines, 1, out=tile.scratch)
        if self.is_zero is not None:
            half.add_(0.5 * self.is_zero[tile.block.rows].unsqueeze(1)).add_(0.5 * self.is_zero[tile.other.rows])
        e = half.mul_(2 * self.t).exp_()
        if tile.diagonal:
            self.total += e.fill_diagonal_(0).sum(dim=1).sum(dtype=torch.float64) / 2
        else:
            self.total += e.sum(dim=1).sum(dtype=torch.float64)

    def uniformity(self) -> float | None:
        """log of the mean; None with fewer than two samples."""
        pairs = self.samples * (self.samples - 1) // 2
        return min(0.0, math.log(float(self.total) / pairs)) if pairs else None  # above 0 it is rounding


class DistancePowers:
    """Adds up ‖x − y‖^α over the pairs of one class."""

    def __init__(self, rows: Directions, power: float) -> None:
        self.rows, self.power = rows, power
        self.total = torch.zeros((), dtype=torch.float64, device=rows.rows.device)

    def fresh(self) -> "DistancePowers":
        """Another one, with a sum of zero."""
        return DistancePowers(self.rows, self.power)

    def join(self, other: "DistancePowers") -> None:
        """Add another one's sum."""
        self.total += other.total

    def add(self, tile: Tile) -> None:
        """Add one tile."""
        # Not 2 − 2·cosine, whose rounding, 1e-7, is a distance of 3e-4: what a class has that is nearly a point.
        here, there = self.rows.rows[tile.block.rows], self.rows.rows[tile.other.rows]
        distances = torch.cdist(here, there, compute_mode="donot_use_mm_for_euclid_dist").pow_(self.power)
        if tile.diagonal:
            distances = distances[same_class(self.rows, tile)] / 2
        self.total += distances.sum(dtype=torch.float64)


@full_precision()
def alignment(found: EmbeddingSet, *, power: float = 2) -> float | None:
    """E ‖x − y‖^α over the pairs of two samples of one class, on the sphere: 0 when classes are points.

    With α = 2 it is 2 − 2·(mean cosine within classes) and costs O(n·d). None where no class has two samples.
    """
    _check_number("power", power)
    if not 0 < power < math.inf:
        raise OptionError(f"power must be positive and finite: got {power}. Wang and Isola use 2.")
    check_not_empty(found)
    similarity = similarity_by_class_pair(found)
    pairs = sum(counts[place] for place, counts in enumerate(similarity.counts))
    if not pairs:
        return None
    rows = directions_of(found)
    if power == 2 and similarity.within is not None and not _has_zero(rows.rows):
        return max(0.0, 2 - 2 * similarity.within)  # rounding can leave a mean cosine just above 1
    powers = DistancePowers(rows, power)
    listen(rows, [powers], within_only=True)
    return float(powers.total) / pairs


@full_precision()
def uniformity(found: EmbeddingSet, *, t: float = 2) -> float | None:
    """log E e^(−t‖x − y‖²) over all pairs of different samples, on the sphere: the lower, the more evenly they spread.

    Embeddings that fill the sphere evenly in high dimension have about −2t, one single point has 0. None with fewer
    than two samples.
    """
    check_not_empty(found)
    rows = directions_of(found)
    potential = GaussianPotential(rows, t)
    listen(rows, [potential])
    return potential.uniformity()


def _check_number(name: str, value: object) -> None:
    """A number, whatever its size; NaN is none."""
    if not is_number(value) or value != value:
        raise OptionError(f"{name} must be a number: got {value!r}. Wang and Isola use 2.")


def _has_zero(rows: Tensor) -> bool:
    return bool((rows.square().sum(dim=1) == 0).any())
