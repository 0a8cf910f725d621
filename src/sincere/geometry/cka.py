"""Are two runs' embeddings the same but for a rotation?"""

import math

import torch
from torch import Tensor

from sincere.checks import check_finite, shape_of
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError
from sincere.geometry.eigenvalues import centred_products
from sincere.losses.similarity import unit_rows
from sincere.nearest.neighbours import row_tiles


def linear_cka(a: EmbeddingSet | Tensor, b: EmbeddingSet | Tensor) -> float:
    """‖XᵀY‖² / (‖XᵀX‖ ‖YᵀY‖), X and Y the centred rows of the same samples: 1 where one is the other, rotated and
    scaled; small where nothing linear connects them.

    Source: Kornblith et al. 2019, arXiv:1905.00414, Section 3. O(n·d²), by the features' form, or O(n²·d), by that of
    the samples, where there are fewer of them. Sets enter with their unit embeddings, tensors (n, d) as they are; the
    dimensions may differ.

    >>> turned = torch.tensor([[0.0, 2.0], [-2.0, 0.0], [0.0, -2.0]])
    >>> round(linear_cka(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]]), turned), 6)
    1.0
    """
    _check_same_samples(a, b)
    x, y = _rows(a), _rows(b)
    if x.shape[0] != y.shape[0] or x.shape[0] < 2:
        raise InputError(
            f"both must hold the same samples, at least two, in the same order: got {shape_of(x)} and {shape_of(y)}."
        )
    # Seen before anything is centred: a mean of equal numbers may differ from them by rounding.
    if any(bool((rows == rows[0]).all()) for rows in (x, y)):
        raise InputError("every row of one of the two is the same: nothing varies that could be compared.")
    if x.shape[0] < max(x.shape[1], y.shape[1]):
        of_x, of_y = centred_products(x), centred_products(y)
        # ‖XᵀY‖² = Σ_ij (XXᵀ)_ij (YYᵀ)_ij, whose terms have both signs: rounding may leave less than 0 of nothing.
        return max(float((of_x * of_y).sum()), 0.0) / float(of_x.norm() * of_y.norm())
    across, within_x, within_y = _product(x, y), _product(x, x), _product(y, y)
    return float(across.square().sum()) / float(within_x.norm() * within_y.norm())


def _rows(found: EmbeddingSet | Tensor) -> Tensor:
    rows = unit_rows(found.embeddings) if isinstance(found, EmbeddingSet) else found
    if not isinstance(rows, Tensor) or rows.ndim != 2 or not rows.is_floating_point():
        raise InputError("linear_cka takes two EmbeddingSets, or two floating-point tensors of shape (n, d).")
    rows = rows.detach()
    check_finite("the rows of linear_cka", rows)
    # A power of two, which rounds nothing: squares of very large or small float64 numbers leave its range.
    largest = float(rows.abs().amax()) if rows.numel() else 0.0
    return rows * 2.0 ** -max(math.frexp(largest)[1], -1000) if rows.dtype == torch.float64 else rows


def _product(x: Tensor, y: Tensor) -> Tensor:
    """XᵀY of the centred rows, float64."""
    means = x.mean(dim=0, dtype=torch.float64), y.mean(dim=0, dtype=torch.float64)
    total = torch.zeros(x.shape[1], y.shape[1], dtype=torch.float64, device=x.device)
    for tile in row_tiles(x.shape[0], 2 * (x.shape[1] + y.shape[1]), x.device):
        total.addmm_((x[tile].double() - means[0]).T, y[tile].double() - means[1])
    return total


def _check_same_samples(a: EmbeddingSet | Tensor, b: EmbeddingSet | Tensor) -> None:
    """Two sets can be seen to differ by their labels and by what they show of a sample."""
    if not isinstance(a, EmbeddingSet) or not isinstance(b, EmbeddingSet) or len(a) != len(b):
        return
    names = [[found.class_names[label] for label in found.labels.tolist()] for found in (a, b)]
    if names[0] != names[1] or (a.shown is not None and b.shown is not None and a.shown != b.shown):
        raise InputError(
            f"both sets must hold the same samples in the same order: {a.name!r} and {b.name!r} differ. "
            "Embed the same data with both models."
        )
