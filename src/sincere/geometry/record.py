"""What the instruments of this package return: frozen records of plain numbers.

A class without samples, or a cell without a pair, has None: no record holds NaN. K is the number of class_names, and
whatever is "by class" stands in their order.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from sincere.evaluate.record import Estimate
from sincere.geometry.documents import from_document, to_document
from sincere.geometry.table import render, sentences
from sincere.losses.loss_readings import LossReading

FORMAT = "sincere.geometry/1"
Counts: TypeAlias = tuple[int, ...]
Cells: TypeAlias = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True)
class PairSimilarity:
    """Mean cosine of the pairs of every two classes: the paper's Figure 2. Pairs are of two different samples."""

    class_names: tuple[str, ...]
    means: Cells  # K×K, symmetric
    counts: tuple[Counts, ...]  # K×K: pairs in each cell, each pair once

    @property
    def within(self) -> float | None:
        """Mean over all pairs of one class."""
        return _mean((row[c], counts[c]) for c, (row, counts) in enumerate(zip(self.means, self.counts, strict=True)))

    @property
    def between(self) -> float | None:
        """Mean over all pairs of two classes."""
        rows = enumerate(zip(self.means, self.counts, strict=True), start=1)
        return _mean(cell for c, (row, counts) in rows for cell in zip(row[c:], counts[c:], strict=True))


def _mean(cells: Iterable[tuple[float | None, int]]) -> float | None:
    """The mean over the pairs of these cells, each a mean and how many pairs it is of."""
    total, pairs = 0.0, 0
    for mean, count in cells:
        if mean is not None:
            total, pairs = total + mean * count, pairs + count
    return total / pairs if pairs else None


@dataclass(frozen=True)
class SimilarityHistograms:
    """How the cosines of same-class and of other pairs are distributed: the paper's Figure 3 for every class.

    A bin holds its left edge, the last one its right edge too. Medians are read off the histogram, linear within a bin.
    """

    class_names: tuple[str, ...]
    edges: tuple[float, ...]  # bins + 1, from −1 to 1
    within: Counts  # pairs of one class, each once
    between: Counts  # pairs of two classes, each once
    within_by_class: tuple[Counts, ...]  # K×bins
    between_by_class: tuple[Counts, ...]  # K×bins: pairs of one member and one other; every pair stands in two rows
    overlap: float | None  # Σ over bins of the smaller of the two shares: 0 apart, 1 alike
    overlap_by_class: tuple[float | None, ...]
    mean_within: float | None
    mean_between: float | None
    median_within: float | None
    median_between: float | None
    pairs_within: int
    pairs_between: int
    sampled: int | None  # how many samples were drawn; None: all of them, and every pair


@dataclass(frozen=True)
class ClassMargins:
    """By how much samples are closer to their own class's mean than to any other: cos to own, itself left out, minus
    the largest cos to another."""

    class_names: tuple[str, ...]
    margins: tuple[Estimate | None, ...]  # mean of each class with its 95 % bootstrap interval
    negative: tuple[float | None, ...]  # share of the class's samples that are closer to another class's mean
    nearest: tuple[str | None, ...]  # the other class whose mean has the largest cosine with this class's mean
    overall: Estimate | None  # mean over all samples that have a margin
    overall_negative: float | None
    draws: int
    seed: int


@dataclass(frozen=True)
class SimplexConditions:
    """Do the class means form a regular simplex around the origin (Graf et al. 2021, arXiv:2102.08817, S1 to S3)?"""

    class_names: tuple[str, ...]
    s1: float | None  # ‖mean of the class means‖; 0 at the simplex
    s2: float | None  # spread of their norms, standard deviation / mean; 0
    s3: float | None  # spread of their pairwise distances, standard deviation / mean; 0
    cosines: Cells  # K×K across the class means, not centred
    target: float | None  # −1/(K−1), K the classes that have samples
    mean_cosine: float | None  # over pairs of classes
    mean_deviation: float | None  # mean over pairs of classes of |cos − target|
    largest_deviation: float | None
    within_collapse: float | None  # mean cos(z_i, mean of its class); 1 when each class is one point
    fits: bool  # K ≤ d + 1: is there room for this simplex at all?


@dataclass(frozen=True)
class NeuralCollapse:
    """NC1 to NC4 of Papyan, Han and Donoho 2020, arXiv:2008.08186; each 0 when collapse is complete."""

    on: str  # "embeddings", as unit vectors, or "features", as they are
    nc1: float | None  # tr(Σ_W Σ_B⁺)/K: spread within classes against spread of their means
    nc2_equinorm: float | None  # spread of ‖μ_c − μ_G‖, standard deviation / mean
    nc2_equiangular: float | None  # standard deviation of the cosines across centred means
    nc2_maximal: float | None  # mean |cos + 1/(K−1)| across centred means
    nc2_etf: float | None  # ‖MMᵀ/‖MMᵀ‖ − (I − 1/K)/√(K−1)‖, M the centred means
    nc3: float | None  # ‖W/‖W‖ − M/‖M‖‖; None without weights
    nc4: float | None  # share of samples where the head and the nearest class mean disagree; None without weights


@dataclass(frozen=True)
class Spectrum:
    """How many directions the unit embeddings use: the eigenvalues of their covariance."""

    eigenvalues: tuple[float, ...]  # largest first
    effective_rank: float | None  # exp of the entropy of their shares: Roy and Vetterli 2007
    participation_ratio: float | None  # (Σλ)²/Σλ²
    dims_for: dict[int, int]  # per cent of the variance → dimensions that hold it


@dataclass(frozen=True)
class HeadRobustness:
    """Accuracy of a linear head when every vector moves against it by a step of size ε."""

    on: str  # "embeddings", as unit vectors, or "features", as they are
    norm: str  # how a step is measured: "length" (L2) or "coordinate" (largest entry, as FGSM's ε)
    steps: tuple[float, ...]
    fgsm: tuple[Estimate, ...]  # along the sign of the gradient of cross-entropy
    worst: tuple[Estimate, ...]  # the worst step of that size, exactly
    radius: float | None  # median over samples that are classified right: the smallest step that changes the answer
    mean_norm: float  # of the test vectors, to compare a step with
    l2: float  # the head's penalty
    samples: int


@dataclass(frozen=True)
class OutOfClass:
    """Can samples of unknown classes be told by their distance from the known classes?"""

    name: str
    other: str
    score: str  # "nearest_mean" or "knn"
    auroc: Estimate  # chance that a sample of `name` scores above one of `other`; ties count half
    fpr95: Estimate  # share of `other` that passes where 95 % of `name` pass
    threshold: float  # the score at which 95 % pass
    edges: tuple[float, ...]
    counts: Counts  # of `name`'s scores in each bin
    other_counts: Counts


@dataclass(frozen=True)
class Geometry:
    """What `describe` found. Print it for a table, `summary` for sentences."""

    name: str
    data: str
    samples: int
    dim: int
    class_names: tuple[str, ...]
    class_counts: Counts
    temperature: float
    similarity: PairSimilarity
    histograms: SimilarityHistograms
    margins: ClassMargins
    simplex: SimplexConditions
    neural_collapse: NeuralCollapse
    alignment: float | None
    uniformity: float | None
    spectrum: Spectrum
    repulsion: dict[str, float]
    kl_bounds: dict[str, float]
    loss_readings: dict[str, LossReading]
    head_robustness: HeadRobustness | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return render(self)

    @property
    def summary(self) -> tuple[str, ...]:
        """The findings in plain sentences, each with what would be good."""
        return tuple(sentences(self))

    def to_json(self) -> str:
        """As JSON; long lists are packed, and nothing in it is NaN."""
        return to_document(self, FORMAT)

    @classmethod
    def from_json(cls, text: str) -> "Geometry":
        """The record that `to_json` wrote."""
        return from_document(cls, text, FORMAT)
