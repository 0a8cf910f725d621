"""Linear classifiers for labels of which a sample may carry several: one logistic regression for each label."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.evaluate.linear import (
    FOLDS,
    SMALLER,
    STRENGTHS,
    LinearClassifier,
    check_strength,
    minimise,
    standardisation,
    stratified_folds,
)
from sincere.nearest.neighbours import row_tiles
from sincere.nearest.precision import full_precision


@full_precision()
def fit_labels(vectors: Tensor, hot: Tensor, *, l2: float, start: LinearClassifier | None = None) -> LinearClassifier:
    """Minimise Σ_l [(1/n) Σ_i BCE(w_l x_i + b_l, y_il) + (l2/2) ‖w_l‖²] over all w_l, b_l, x standardised.

    `hot` is (n, labels), 0 or 1. Labels do not depend on each other, and b is not penalised: for each label this is
    scikit-learn's `LogisticRegression(C=1/(l2·n))`. A positive score says that a sample more likely than not carries
    the label. `start` is another fit on the same vectors.
    """
    check_strength(l2)
    mean, scale = standardisation(vectors)
    rows, hot = (vectors - mean) / scale, hot.to(vectors.dtype)
    parameters = torch.zeros(hot.shape[1], vectors.shape[1] + 1, dtype=torch.float64, device=vectors.device)
    if start is not None:
        parameters = torch.cat([start.weight, start.bias.unsqueeze(1)], dim=1).double()
    minimise(parameters, lambda: _objective(parameters, rows, hot, l2), l2=l2)
    weight, bias = parameters[:, :-1].to(vectors.dtype), parameters[:, -1].to(vectors.dtype)
    return LinearClassifier(weight, bias, mean, scale)


def _objective(parameters: Tensor, rows: Tensor, hot: Tensor, l2: float) -> tuple[float, Tensor]:
    """Value and gradient, by blocks of rows."""
    weight, bias = parameters[:, :-1].to(rows.dtype), parameters[:, -1].to(rows.dtype)
    total = torch.zeros((), dtype=torch.float64, device=rows.device)
    gradient = torch.zeros_like(parameters)
    for tile in row_tiles(rows.shape[0], SMALLER * parameters.shape[0], rows.device):
        logits = torch.addmm(bias, rows[tile], weight.T)
        total += F.binary_cross_entropy_with_logits(logits, hot[tile], reduction="none").sum(dtype=torch.float64)
        residual = logits.sigmoid() - hot[tile]
        gradient[:, :-1] += residual.T @ rows[tile]
        gradient[:, -1] += residual.sum(dim=0)
    gradient /= rows.shape[0]
    gradient[:, :-1] += l2 * parameters[:, :-1]
    return float(total / rows.shape[0] + l2 / 2 * parameters[:, :-1].square().sum()), gradient


def fit_labels_with_folds(
    vectors: Tensor, hot: Tensor, *, seed: int = 0, strengths: Sequence[float] = STRENGTHS
) -> tuple[LinearClassifier, float]:
    """A fit with one strength of L2 for all labels, the one of least cross-entropy on held-out folds, and that.

    From strong to weak, each fit from the one before; two in a row that are worse end the search.
    """
    fold = stratified_folds(hot.new_zeros(hot.shape[0], dtype=torch.int64), FOLDS, seed=seed)
    starts: list[LinearClassifier | None] = [None] * FOLDS
    best, chosen, worse = float("inf"), 0.0, 0
    for l2 in sorted(strengths, reverse=True):
        loss = 0.0
        for held, start in enumerate(starts):
            inside = fold != held
            fitted = starts[held] = fit_labels(vectors[inside], hot[inside], l2=l2, start=start)
            scores = fitted.scores(vectors[~inside]).double()
            loss += float(F.binary_cross_entropy_with_logits(scores, hot[~inside].double(), reduction="sum"))
        if loss < best:
            best, chosen, worse = loss, l2, 0
        else:
            worse += 1
        if worse == 2:
            break
    return fit_labels(vectors, hot, l2=chosen), chosen
