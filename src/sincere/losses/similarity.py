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
    return scaled * torch.where(is_zero, 0, torch.where(is_zero, 1, squared).rsqrt())


def zero_unless(takes_part: Tensor, rows: Tensor) -> Tensor:
    """Replace rows that take no part by zeros, so that they get a zero gradient whatever they hold.

    A mask after the similarity would not be enough: a row with NaN has a derivative of NaN, and 0 · NaN is NaN.
    """
    return torch.where(takes_part.unsqueeze(1), rows, 0)


def inner_product_rows(
    anchors: Tensor, contrasts: Tensor | None, similarity: SimilarityName, usable: Tensor | None = None
) -> tuple[Tensor, Tensor | None]:
    """Rows whose inner products are the similarities; `None` for contrasts that are the anchors' own rows.

    `usable`, (m,), says which contrasts take part; None means all of them.
    """
    if similarity == "cosine":
        return unit_rows(anchors), None if contrasts is None else unit_rows(contrasts)
    if similarity == "dot":
        return anchors, contrasts
    return euclidean_rows(anchors, anchors if contrasts is None else contrasts, usable)


def euclidean_rows(anchors: Tensor, contrasts: Tensor, usable: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Distances do not change when everything is shifted, and centred rows lose fewer digits."""
    held = contrasts.detach()
    count = max(held.shape[0], 1) if usable is None else usable.sum().clamp(min=1)
    centre = held.sum(dim=0) / count
    anchors, contrasts = anchors - centre, contrasts - centre
    anchor_half = -0.5 * anchors.square().sum(dim=1, keepdim=True)
    contrast_half = -0.5 * contrasts.square().sum(dim=1, keepdim=True)
    return (
        torch.cat([anchors, anchor_half, torch.ones_like(anchor_half)], dim=1),
        torch.cat([contrasts, torch.ones_like(contrast_half), contrast_half], dim=1),
    )
