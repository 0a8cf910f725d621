"""How many directions embeddings use."""

import torch
from torch import Tensor

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.evaluate.neighbours import row_tiles
from sincere.geometry.directions import check_not_empty
from sincere.geometry.record import Spectrum
from sincere.losses.similarity import unit_rows

SHARES = (90, 99)  # per cent of the variance


def spectrum(found: EmbeddingSet) -> Spectrum:
    """Eigenvalues λ of the covariance of the unit embeddings, and three readings of how many matter.

    The effective rank is exp(−Σ p log p), p = λ/Σλ: Roy and Vetterli 2007, "The effective rank", Section 2, for the
    covariance matrix, whose singular values the λ are. Of K collapsed classes at a regular simplex all three are K − 1.
    """
    check_not_empty(found)
    values = torch.linalg.eigvalsh(covariance(unit_rows(found.embeddings))).flip(0).clamp(min=0)
    total = float(values.sum())
    dims, rank, ratio = {}, None, None
    if total > 0:
        shares = values / total
        rank = float(torch.special.entr(shares).sum().exp())
        ratio = float(1 / shares.square().sum())
        summed = shares.cumsum(0)
        # A share that ten digits cannot tell from the wanted one is there.
        dims = {percent: 1 + int((summed < percent / 100 - 1e-10).sum()) for percent in SHARES}
    return Spectrum(tuple(values.tolist()), rank, ratio, dims)


def covariance(rows: Tensor) -> Tensor:
    """(1/n) Σ (z_i − z̄)(z_i − z̄)ᵀ, float64 (d, d)."""
    mean = rows.mean(dim=0, dtype=torch.float64)
    total = torch.zeros(rows.shape[1], rows.shape[1], dtype=torch.float64, device=rows.device)
    for tile in row_tiles(rows.shape[0], 2 * rows.shape[1], rows.device):
        centred = rows[tile].double() - mean
        total.addmm_(centred.T, centred)
    return total / rows.shape[0]
