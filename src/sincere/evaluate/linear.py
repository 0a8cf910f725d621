"""Linear classifiers on frozen vectors: logistic regression by L-BFGS, and how its strength of L2 is chosen."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.errors import InputError, OptionError
from sincere.nearest.neighbours import row_tiles
from sincere.nearest.precision import full_precision

STRENGTHS = (10.0, 1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)  # of L2, strong to weak, on standardised vectors
FOLDS = 3  # of the training samples, where they have to choose the strength themselves
SMALLER = 8  # blocks than the largest, so that all that is done to one finds it in the cache: 4 MB on a CPU
# Logits and targets of a block of rows -> the sum of their losses in float64, and its derivative by each logit.
Loss: TypeAlias = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class LinearClassifier:
    """scores = weight · (vector − mean)/scale + bias."""

    weight: Tensor  # (classes, d)
    bias: Tensor  # (classes,)
    mean: Tensor  # (d,)
    scale: Tensor  # (d,)

    @full_precision()
    def scores(self, vectors: Tensor) -> Tensor:
        """(n, classes): logits, whose softmax is the probability of each class."""
        # Less the mean first: beside a large one, float32 has few digits left for what varies.
        return torch.addmm(self.bias, vectors - self.mean, (self.weight / self.scale).T)


def fit_logistic(
    vectors: Tensor,
    labels: Tensor,
    *,
    classes: int,
    l2: float,
    start: LinearClassifier | None = None,
    tolerance: float = 1e-5,
) -> LinearClassifier:
    """Minimise (1/n) Σ_i −log softmax(W x_i + b)_{y_i} + (l2/2) ‖W‖² over W and b, x standardised on these vectors.

    b is not penalised. scikit-learn's `LogisticRegression(C=1/(l2·n))` has the same minimum; of two classes that with
    C=2/(l2·n), as it keeps one row of W for both. Parameters and sums over blocks are float64, products have the
    vectors' precision. `start` is another fit on the same vectors. `tolerance` is the largest entry of the gradient at
    which to stop, for an l2 of at least 0.01; below that it falls with √l2, as the value can exceed its minimum by
    ‖gradient‖²/(2·l2).
    """
    return fit(vectors, labels, cross_entropies, outputs=classes, l2=l2, start=start, tolerance=tolerance)


def cross_entropies(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """−log softmax(logits)_y, summed over rows in float64, and its derivative by the logits."""
    own, largest = labels.unsqueeze(1), logits.amax(dim=1, keepdim=True)
    ahead = largest - logits.gather(1, own)
    residual = logits.softmax(dim=1)
    # log Σ exp(logits) − largest is −log of the largest probability, so that no second exponential is needed.
    loss = (ahead - residual.amax(dim=1, keepdim=True).log()).sum(dtype=torch.float64)
    return loss, residual.scatter_add_(1, own, torch.full_like(own, -1, dtype=residual.dtype))


@full_precision()
def fit(
    vectors: Tensor,
    targets: Tensor,
    loss: Loss,
    *,
    outputs: int,
    l2: float,
    start: LinearClassifier | None = None,
    tolerance: float = 1e-5,
) -> LinearClassifier:
    """Minimise (1/n) Σ_i loss(W x_i + b, target_i) + (l2/2) ‖W‖², otherwise as `fit_logistic`."""
    check_strength(l2)
    mean, scale = standardisation(vectors)
    rows = (vectors - mean) / scale
    parameters = torch.zeros(outputs, vectors.shape[1] + 1, dtype=torch.float64, device=vectors.device)
    if start is not None:
        parameters = torch.cat([start.weight, start.bias.unsqueeze(1)], dim=1).double()
    _minimise(parameters, lambda: _objective(parameters, rows, targets, loss, l2), l2=l2, tolerance=tolerance)
    weight, bias = parameters[:, :-1], parameters[:, -1]
    return LinearClassifier(weight.to(vectors.dtype), bias.to(vectors.dtype), mean, scale)


def check_strength(l2: object) -> None:
    """Without L2 what can be separated has no minimum; with an infinite one, or NaN, nothing is searched."""
    if not isinstance(l2, Real) or isinstance(l2, bool) or not 0 < float(l2) < float("inf"):
        raise OptionError(
            f"l2 must be positive and finite: got {l2!r}. Usual are {STRENGTHS[-1]:g} to {STRENGTHS[0]:g}; "
            "left out, it is chosen."
        )


def _minimise(
    parameters: Tensor, objective: Callable[[], tuple[float, Tensor]], *, l2: float, tolerance: float
) -> None:
    """Change `parameters` to where `objective`, their value and gradient, is least, by L-BFGS.

    `tolerance` as for `fit_logistic`.
    """
    tolerance *= min(1.0, (l2 / 0.01) ** 0.5)
    optimizer = torch.optim.LBFGS(
        [parameters],
        max_iter=300,
        tolerance_grad=tolerance,
        tolerance_change=tolerance**2,  # near a minimum the value falls with the square of the gradient
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def value() -> float:
        found, parameters.grad = objective()
        return found

    optimizer.step(value)  # type: ignore[no-untyped-call]


def _objective(parameters: Tensor, rows: Tensor, targets: Tensor, loss: Loss, l2: float) -> tuple[float, Tensor]:
    """Value and gradient, by blocks of rows: no (n, outputs) matrix is kept."""
    weight, bias = parameters[:, :-1].to(rows.dtype), parameters[:, -1].to(rows.dtype)
    total = torch.zeros((), dtype=torch.float64, device=rows.device)
    gradient = torch.zeros_like(parameters)
    for tile in row_tiles(rows.shape[0], SMALLER * parameters.shape[0], rows.device):
        value, residual = loss(torch.addmm(bias, rows[tile], weight.T), targets[tile])
        total += value
        gradient[:, :-1] += residual.T @ rows[tile]
        gradient[:, -1] += residual.sum(dim=0)  # of few rows; in float64 it would copy them all
    gradient /= rows.shape[0]
    gradient[:, :-1] += l2 * parameters[:, :-1]
    return float(total / rows.shape[0] + l2 / 2 * parameters[:, :-1].square().sum()), gradient


def standardisation(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of every dimension, in float64; 1 for a dimension that does not vary."""
    mean = vectors.mean(dim=0, dtype=torch.float64)
    square = torch.zeros_like(mean)
    for tile in row_tiles(vectors.shape[0], vectors.shape[1], vectors.device):
        square += (vectors[tile].double() - mean).square().sum(dim=0)
    scale = (square / vectors.shape[0]).sqrt()
    varies = scale > 1e-7 * mean.abs() + torch.finfo(torch.float32).tiny
    return mean.to(vectors.dtype), torch.where(varies, scale, 1.0).to(vectors.dtype)


Split: TypeAlias = tuple[Tensor, Tensor, Tensor, Tensor]  # vectors and labels to fit, vectors and labels to judge by


def choose_strength(
    splits: Sequence[Split], *, classes: int, strengths: Sequence[float] = STRENGTHS
) -> tuple[float, list[LinearClassifier]]:
    """The strength with most right on the held-out part of all splits, and its fits; of equals the surest.

    An encoder knows its training samples by heart, so that every strength may have all of them right; then the lowest
    cross-entropy on the held-out part decides. From strong to weak, each fit from the one before; two with fewer right
    in a row end the search, as weak ones fit longest.
    """
    if not strengths:
        raise OptionError("strengths must hold at least one strength of L2: got none.")
    starts: list[LinearClassifier | None] = [None] * len(splits)
    best, chosen, fits, worse = (-1, 0.0), 0.0, [], 0
    for l2 in sorted(strengths, reverse=True):
        fitted = [
            fit_logistic(vectors, labels, classes=classes, l2=l2, start=start)
            for (vectors, labels, _, _), start in zip(splits, starts, strict=True)
        ]
        right, loss = 0, 0.0
        for one, (_, _, vectors, labels) in zip(fitted, splits, strict=True):
            scores = one.scores(vectors)
            right += int((scores.argmax(dim=1) == labels).sum())
            loss += float(F.cross_entropy(scores.double(), labels, reduction="sum"))
        if (right, -loss) > best:
            best, chosen, fits = (right, -loss), l2, fitted
        worse = worse + 1 if right < best[0] else 0
        if worse == 2:
            break
        starts = [*fitted]
    return chosen, fits


def fit_with_validation(
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    *,
    classes: int,
    strengths: Sequence[float] = STRENGTHS,
) -> tuple[LinearClassifier, float]:
    """A fit on `train` with the strength that does best on `validation`, and that strength."""
    chosen, fits = choose_strength([(*train, *validation)], classes=classes, strengths=strengths)
    return fits[0], chosen


def fit_with_folds(
    vectors: Tensor,
    labels: Tensor,
    *,
    classes: int,
    seed: int = 0,
    views: int = 1,
) -> tuple[LinearClassifier, float]:
    """As `fit_with_validation`, with the strength chosen by cross-validation within the training samples.

    Where the vectors are several `views` of each sample, all first ones before all second ones, a sample's views share
    a fold: a held-out view is one of a sample that the fit has not seen in any form.
    """
    if views < 1 or labels.shape[0] % views:
        raise InputError(f"there must be {views} views of each sample: got {labels.shape[0]} vectors.")
    fold = stratified_folds(labels[: labels.shape[0] // views], FOLDS, seed=seed).repeat(views)
    splits = [
        (vectors[fold != held], labels[fold != held], vectors[fold == held], labels[fold == held])
        for held in range(FOLDS)
    ]
    chosen, _ = choose_strength(splits, classes=classes)
    return fit_logistic(vectors, labels, classes=classes, l2=chosen), chosen


def stratified_folds(labels: Tensor, folds: int, *, seed: int) -> Tensor:
    """A fold 0 .. folds − 1 for each sample, every class spread evenly over them."""
    n = labels.shape[0]
    if not 2 <= folds <= n:
        raise InputError(
            f"cross-validation needs at least as many training samples as its {folds} folds: got {n}. "
            "Add some, or give the strength of L2 yourself."
        )
    shuffled = torch.randperm(n, generator=torch.Generator().manual_seed(seed), device="cpu")
    by_class = shuffled[labels.cpu()[shuffled].argsort(stable=True)]
    fold = torch.empty_like(by_class)
    fold[by_class] = torch.arange(n, device="cpu") % folds
    return fold.to(labels.device)
