"""Similarities as inner products, so that a backend needs to know only one operation.

cosine     <a/‖a‖, c/‖c‖>
dot        <a, c>
euclidean  −½‖a − c‖² = <(a, −½‖a‖², 1), (c, 1, −½‖c‖²)>
"""

import torch
from torch import Tensor

from sincere.types import SimilarityName


def unit_rows(embeddings: Tensor) -> Tensor:
    """Rows scaled to norm one; a zero row stays zero, with a zero gradient.

    Dividing by the largest entry first keeps norms from 1e-38 to 1e38 from over- or underflowing.
    `F.normalize` would send a gradient of size 1e12 into a zero row.
    """
    largest = embeddings.detach().abs().amax(dim=-1, keepdim=True)
    scaled = embeddings / torch.where(largest > 0, largest, 1)
    squared = scaled.square().sum(dim=-1, keepdim=True)
    is_zero = squared == 0
    return torch.where(is_zero, 0, scaled * torch.where(is_zero, 1, squared).rsqrt())


def inner_product_rows(
    anchors: Tensor, contrasts: Tensor | None, similarity: SimilarityName
) -> tuple[Tensor, Tensor | None]:
    """Rows whose inner products are the similarities; `None` for contrasts that are the anchors' own rows."""
    if similarity == "cosine":
        return unit_rows(anchors), None if contrasts is None else unit_rows(contrasts)
    if similarity == "dot":
        return anchors, contrasts
    return euclidean_rows(anchors, anchors if contrasts is None else contrasts)


def euclidean_rows(anchors: Tensor, contrasts: Tensor) -> tuple[Tensor, Tensor]:
    """Distances do not change when everything is shifted, and centred rows lose fewer digits."""
    centre = contrasts.detach().mean(dim=0) if contrasts.shape[0] else contrasts.new_zeros(contrasts.shape[1])
    anchors, contrasts = anchors - centre, contrasts - centre
    anchor_half = -0.5 * anchors.square().sum(dim=1, keepdim=True)
    contrast_half = -0.5 * contrasts.square().sum(dim=1, keepdim=True)
    return (
        torch.cat([anchors, anchor_half, torch.ones_like(anchor_half)], dim=1),
        torch.cat([contrasts, torch.ones_like(contrast_half), contrast_half], dim=1),
    )
