"""Neural collapse: what becomes of features and head when training goes on beyond zero error.

Source: Papyan, Han, Donoho 2020, arXiv:2008.08186, NC1 to NC4. μ_c is the mean of class c, μ_G the mean of the μ_c
(with classes of one size, as in the paper, the mean of all samples), M the matrix of rows μ_c − μ_G.
"""

import math

import torch
from torch import Tensor

from sincere.checks import check_finite, shape_of
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate.options import Vectors
from sincere.geometry.directions import check_not_empty, class_sums, cosines_across, spread, vectors_on
from sincere.geometry.record import NeuralCollapse
from sincere.nearest.neighbours import row_tiles
from sincere.nearest.precision import full_precision


@full_precision()
def neural_collapse(
    found: EmbeddingSet,
    *,
    weights: Tensor | None = None,
    bias: Tensor | None = None,
    on: Vectors = "embeddings",
) -> NeuralCollapse:
    """How far a set, and the linear head that reads it, have collapsed.

    NC1 is tr(Σ_W Σ_B⁺)/K, with Σ_W the mean over samples of (h − μ_c)(h − μ_c)ᵀ and Σ_B = MᵀM/K. NC2 measures whether
    the rows of M have one norm and one angle, the widest that K vectors can have; NC3, whether the head's weights are M
    up to a scale; NC4, whether the head predicts the nearest class mean. Classes without samples are left out.

    Args:
        found: the samples.
        weights: of the head, (classes, d), acting on the vectors that `on` names.
        bias: of the head, (classes,).
        on: "embeddings", as unit vectors; or "features", as they are.
    """
    check_not_empty(found)
    vectors = vectors_on(found, on)
    _check_head(weights, bias, classes=len(found.class_names), dim=vectors.shape[1])
    counts = torch.bincount(found.labels, minlength=len(found.class_names))
    present = counts > 0
    means = class_sums(vectors, found.labels, classes=len(counts)) / counts.unsqueeze(1)
    k = int(present.sum())
    if k < 2:
        return NeuralCollapse(on, None, None, None, None, None, None, None)
    centred = means[present] - means[present].mean(dim=0)
    cosines = cosines_across(centred)
    pairs = cosines[tuple(torch.triu_indices(k, k, offset=1, device=cosines.device))]
    nc3 = nc4 = None
    if weights is not None:
        nc3 = _self_duality(weights[present.to(weights.device)].to(centred), centred)
        nc4 = _disagreement(vectors, means, weights, bias)
    return NeuralCollapse(
        on=on,
        nc1=_variability(vectors, found.labels, means, centred),
        nc2_equinorm=spread(centred.norm(dim=1)),
        # Means that are all one point have no angles between them.
        nc2_equiangular=float(pairs.std(correction=0)) if bool(centred.any()) else None,
        nc2_maximal=float((pairs + 1 / (k - 1)).abs().mean()) if bool(centred.any()) else None,
        nc2_etf=_distance_from_etf(centred),
        nc3=nc3,
        nc4=nc4,
    )


def _variability(vectors: Tensor, labels: Tensor, means: Tensor, centred: Tensor) -> float | None:
    """tr(Σ_W Σ_B⁺)/K = Σ_r mean_i (u_r · (h_i − μ))² / σ_r², u and σ the right singular vectors and values of M."""
    _, sigma, directions = torch.linalg.svd(centred, full_matrices=False)
    kept = sigma > sigma.max() * max(centred.shape) * torch.finfo(sigma.dtype).eps
    kept[centred.shape[0] - 1 :] = False  # centred rows add up to zero: at most K − 1 directions, the rest is rounding
    if not bool(kept.any()):
        return None
    directions, sigma = directions[kept], sigma[kept]
    variance = torch.zeros_like(sigma)
    for tile in row_tiles(vectors.shape[0], 2 * vectors.shape[1], vectors.device):
        away = vectors[tile].double() - means[labels[tile]]
        variance += (away @ directions.T).square().sum(dim=0)
    return float((variance / vectors.shape[0] / sigma.square()).sum())


def _distance_from_etf(centred: Tensor) -> float | None:
    """‖MMᵀ/‖MMᵀ‖ − (I − 11ᵀ/K)/√(K−1)‖: the Gram matrix against that of a simplex equiangular tight frame."""
    k, gram = centred.shape[0], centred @ centred.T
    size = float(gram.norm())
    frame = torch.eye(k, dtype=gram.dtype, device=gram.device) - 1 / k
    return float((gram / size - frame / math.sqrt(k - 1)).norm()) if size else None


def _self_duality(weights: Tensor, centred: Tensor) -> float | None:
    weights = weights / weights.abs().max().clamp(min=torch.finfo(weights.dtype).tiny)  # or squares leave the range
    sizes = float(weights.norm()), float(centred.norm())
    return float((weights / sizes[0] - centred / sizes[1]).norm()) if all(sizes) else None


def _disagreement(vectors: Tensor, means: Tensor, weights: Tensor, bias: Tensor | None) -> float:
    """Share of samples where argmax(Wh + b) is another class than argmin ‖h − μ_c‖."""
    weights = weights.to(means)
    offset = 0 if bias is None else bias.to(means)
    half_squares = means.square().sum(dim=1) / 2
    differ = 0
    for tile in row_tiles(vectors.shape[0], means.shape[0] + vectors.shape[1], vectors.device):
        h = vectors[tile].double()
        nearest = (h @ means.T - half_squares).nan_to_num(nan=-torch.inf).argmax(dim=1)
        differ += int(((h @ weights.T + offset).argmax(dim=1) != nearest).sum())
    return differ / vectors.shape[0]


def _check_head(weights: Tensor | None, bias: Tensor | None, *, classes: int, dim: int) -> None:
    if weights is None and bias is not None:
        raise InputError("bias comes with weights: pass the head's weights too.")
    for name, given in (("weights", weights), ("bias", bias)):
        if given is not None and not isinstance(given, Tensor):
            raise InputError(f"{name} must be a torch.Tensor: got {type(given).__name__}. Use torch.as_tensor(...).")
    if weights is not None and tuple(weights.shape) != (classes, dim):
        raise InputError(f"weights must have shape ({classes}, {dim}), (classes, d): got {shape_of(weights)}.")
    if bias is not None and tuple(bias.shape) != (classes,):
        raise InputError(f"bias must have shape ({classes},): got {shape_of(bias)}.")
    for name, given in (("weights", weights), ("bias", bias)):
        if given is not None:
            check_finite(name, given)
