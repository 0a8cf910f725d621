"""How well embeddings tell labels that are numbers, as after Rank-N-Contrast."""

from dataclasses import dataclass
from typing import TypeAlias

import torch
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.embeddings.plain_rows import finite_rows, shaped_numbers
from sincere.errors import InputError
from sincere.evaluate.bootstrap import percentile_interval, resampled_means
from sincere.evaluate.linear import FOLDS, STRENGTHS, check_strength, standardisation, stratified_folds
from sincere.evaluate.neighbour_shares import neighbour_shares
from sincere.nearest.precision import full_precision
from sincere.tables import amount, columns

NEIGHBOURS = 10  # unless given
ROUNDING = 1e-12  # of the mean square: a draw of one sample alone has no more variance than that, and so no R²


@dataclass(frozen=True)
class Quantity:
    """A figure in the labels' own unit, or without one, and its 95 % interval."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.4g} ({self.low:.4g} to {self.high:.4g})".replace("-", "−")


@dataclass(frozen=True)
class Predicted:
    """One way to predict the numbers."""

    title: str
    predictions: tuple[float, ...]
    error: Quantity  # mean absolute error
    r2: Quantity  # 1 − Σ(y − ŷ)²/Σ(y − ȳ)²: 1 is perfect, 0 as good as their mean


@dataclass(frozen=True)
class NumbersEvaluation:
    """What `evaluate_numbers` found; print it for a table."""

    samples: int
    references: int
    knn: Predicted
    linear: Predicted
    median: Predicted  # the references' median for every sample: what embeddings must beat
    k: int
    l2: float
    draws: int

    def __str__(self) -> str:
        rows = [("", "mean absolute error", "R²")]
        rows += [(one.title, str(one.error), str(one.r2)) for one in (self.knn, self.linear, self.median)]
        title = f"{amount(self.references, 'reference')}, {amount(self.samples, 'sample')}"
        return "\n".join([f"{title}; 95 % intervals from {self.draws:,} bootstrap draws", "", *columns(rows)])


@usual_defaults()
@full_precision()
def evaluate_numbers(
    embeddings: object,
    values: object,
    references: object,
    reference_values: object,
    *,
    k: int | None = None,
    l2: float | None = None,
    draws: int = 1000,
    seed: int = 0,
) -> NumbersEvaluation:
    """How well embeddings tell a number that belongs to each sample, with 95 % intervals over samples.

    Predictions are the mean of the k nearest references by cosine, and a linear function of the embeddings (ridge
    regression on standardised rows). Nothing is chosen on the samples: the strength of L2 is, by cross-validation
    within the references. Samples whose number is NaN, which are unlabelled for `RankNContrastLoss`, are left out.

    Args:
        embeddings: (n, d), numbers in a tensor, an array or lists.
        values: (n,).
        references: (m, d), such as the embeddings of training samples.
        reference_values: (m,).
        k: how many references are averaged; 10 unless given, or all of fewer.
        l2: strength of the linear function's penalty, where it was chosen before.
        draws: of the bootstrap over samples.
    """
    new, wanted = _numbered("embeddings", embeddings, "values", values)
    known, numbers = _numbered("references", references, "reference_values", reference_values)
    if new.shape[1] != known.shape[1]:
        raise InputError(
            f"samples and references must share their dimensions: got {new.shape[1]} and {known.shape[1]}."
        )
    if l2 is not None:
        check_strength(l2)
    k = min(NEIGHBOURS, len(known)) if k is None else k
    near = torch.zeros(len(new), dtype=torch.float64)
    for tile, shares in neighbour_shares(new, known, k=k):
        near[tile] = shares @ numbers / k
    strength = _chosen_strength(known, numbers, seed=seed) if l2 is None else l2
    ways = {
        f"k-NN (k = {k})": near,
        "linear": _ridge(known, numbers, (strength,)).predicted(new)[0],
        "median of the references": numbers.median().expand(len(new)),
    }
    found = [_judged(title, guess, wanted, draws=draws, seed=seed) for title, guess in ways.items()]
    return NumbersEvaluation(len(new), len(known), found[0], found[1], found[2], k, strength, draws)


def _numbered(name: str, embeddings: object, values_name: str, values: object) -> tuple[Tensor, Tensor]:
    """Rows and their numbers, float64, without samples that have none."""
    rows = finite_rows(name, embeddings)
    given = shaped_numbers(values_name, values, f"one number for each of {name}, ({len(rows)},)", (len(rows),))
    numbers = torch.from_numpy(given.astype("float64"))
    kept = ~numbers.isnan()
    if not bool(kept.any()) or not bool(numbers[kept].isfinite().all()):
        raise InputError(f"{values_name} must be finite, or NaN for unlabelled samples, and not all of them NaN.")
    return rows[kept], numbers[kept]


@dataclass(frozen=True)
class _Ridge:
    weights: Tensor  # (strengths, d), float64
    offset: Tensor
    mean: Tensor
    scale: Tensor

    def predicted(self, rows: Tensor) -> Tensor:
        """(strengths, n)."""
        return self.weights @ ((rows - self.mean) / self.scale).double().T + self.offset


Strengths: TypeAlias = tuple[float, ...]


def _ridge(rows: Tensor, numbers: Tensor, strengths: Strengths) -> _Ridge:
    """Minimise (1/n) Σ (w x + b − y)² + l2 ‖w‖², x standardised, for each strength by one decomposition."""
    mean, scale = standardisation(rows)
    inputs, offset = ((rows - mean) / scale).double(), numbers.mean()
    values, vectors = torch.linalg.eigh(inputs.T @ inputs / len(rows))
    turned = vectors.T @ (inputs.T @ (numbers - offset) / len(rows))
    weights = torch.stack([vectors @ (turned / (values.clamp(min=0) + l2)) for l2 in strengths])
    return _Ridge(weights, offset, mean, scale)


def _chosen_strength(rows: Tensor, numbers: Tensor, *, seed: int) -> float:
    """The strength of least squared error on held-out folds."""
    fold = stratified_folds(torch.zeros(len(rows), dtype=torch.int64), FOLDS, seed=seed)
    error = torch.zeros(len(STRENGTHS), dtype=torch.float64)
    for held in range(FOLDS):
        inside = fold != held
        guesses = _ridge(rows[inside], numbers[inside], STRENGTHS).predicted(rows[~inside])
        error += (guesses - numbers[~inside]).square().sum(dim=1)
    return STRENGTHS[int(error.argmin())]


def _judged(title: str, guess: Tensor, wanted: Tensor, *, draws: int, seed: int) -> Predicted:
    off, centred = guess - wanted, wanted - wanted.mean()
    parts = torch.stack([off.abs(), off.square(), centred, centred.square()], dim=1)
    means = torch.cat([parts.mean(dim=0, keepdim=True), resampled_means(parts, draws=draws, seed=seed)])
    variance = means[:, 3] - means[:, 2].square()
    r2 = torch.where(variance > ROUNDING * means[:, 3], 1 - means[:, 1] / variance, torch.nan)
    quantities = (Quantity(float(one[0]), *percentile_interval(one[1:])) for one in (means[:, 0], r2))
    return Predicted(title, tuple(guess.tolist()), *quantities)
