"""Linear classifiers for labels of which a sample may carry several: one logistic regression for each label."""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.evaluate.linear import FOLDS, STRENGTHS, LinearClassifier, fit, stratified_folds


def fit_labels(vectors: Tensor, hot: Tensor, *, l2: float, start: LinearClassifier | None = None) -> LinearClassifier:
    """Minimise Σ_l [(1/n) Σ_i BCE(w_l x_i + b_l, y_il) + (l2/2) ‖w_l‖²] over all w_l, b_l, x standardised.

    `hot` is (n, labels), 0 or 1. Labels do not depend on each other, and b is not penalised: for each label this is
    scikit-learn's `LogisticRegression(C=1/(l2·n))`. A positive score says that a sample more likely than not carries
    the label. `start` is another fit on the same vectors.
    """
    return fit(vectors, hot.to(vectors.dtype), _binary_cross_entropies, outputs=hot.shape[1], l2=l2, start=start)


def _binary_cross_entropies(logits: Tensor, hot: Tensor) -> tuple[Tensor, Tensor]:
    """Summed over rows and labels in float64, and their derivative by the logits."""
    loss = F.binary_cross_entropy_with_logits(logits, hot, reduction="none").sum(dtype=torch.float64)
    return loss, logits.sigmoid() - hot


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
