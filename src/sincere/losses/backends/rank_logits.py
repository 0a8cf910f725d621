"""Rank-N-Contrast of anchors from their logits.

A row is put in order, the farthest contrast first. Everything that j competes with then stands in front of it, and one
cumulative log-sum-exp holds the denominators of all j.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.losses.backends.cumulative import cumulative_logsumexp, flowing_back
from sincere.losses.backends.row_blocks import row_blocks
from sincere.losses.relation import Relation
from sincere.losses.statistics import softplus

# Of a distance that is not Euclidean torch has one way; of a Euclidean one this is the exact one, in which equal
# distances come out equal.
EXACTLY = "donot_use_mm_for_euclid_dist"


@dataclass(frozen=True)
class Ranking:
    """How contrasts are ranked by distance from the anchor, and what is known of their logits."""

    spared: bool  # do contrasts at the same distance not compete with each other
    power: float  # of the norm that is the distance: 1 or 2
    bounded: bool  # is |s| ≤ 32 known


@dataclass(frozen=True)
class Order:
    """Rows of contrasts (r, m), the farthest first."""

    contrasts: Tensor  # which contrast stands at each place
    last: Tensor  # it competes with all places up to this one; 0 where it competes with none
    counts: Tensor  # whether the mean is over it, too


def order_of(relation: Relation, rows: slice | None, ranking: Ranking) -> Order:
    """The order of the contrasts of each anchor in `rows`, or of every anchor."""
    own, others = relation.anchor if rows is None else relation.anchor[rows], relation.others(rows)
    distances = torch.cdist(own, relation.contrast, p=ranking.power, compute_mode=EXACTLY)
    nearness, contrasts = torch.where(others, -distances, torch.inf).sort(dim=1)  # what takes no part comes last
    # A contrast competes with everything up to the last at its own distance; where those are spared, up to the last
    # that is strictly farther.
    last = torch.searchsorted(nearness, nearness, right=not ranking.spared) - 1
    return Order(contrasts, last.clamp(min=0), others.gather(1, contrasts) & (last >= 0))


def values_of_logits(s: Tensor, relation: Relation, rows: slice | None, ranking: Ranking) -> tuple[Tensor, Tensor]:
    """ℓ of the anchors in `rows`, whose logits are s (r, m), and how many contrasts each mean is over."""
    order = order_of(relation, rows, ranking)
    s = torch.where(relation.others(rows), s, 0).gather(1, order.contrasts)
    against = cumulative_logsumexp(s, bounded=ranking.bounded).gather(1, order.last)
    terms = softplus(against - s) if ranking.spared else against - s
    counted = order.counts.sum(dim=1)
    return torch.where(order.counts, terms, 0).sum(dim=1) / counted.clamp(min=1), counted


def gradient_of_logits(s: Tensor, grad: Tensor, relation: Relation, rows: slice, ranking: Ranking) -> Tensor:
    """∂L/∂s of a block, where `grad` is ∂L/∂ℓ, (r,)."""
    order = order_of(relation, rows, ranking)
    s = torch.where(relation.others(rows), s, 0).gather(1, order.contrasts)
    sums = cumulative_logsumexp(s, bounded=ranking.bounded)
    each = (grad / order.counts.sum(dim=1).clamp(min=1)).unsqueeze(1)
    pull = torch.where(order.counts, each, 0)
    if ranking.spared:
        pull = pull * torch.sigmoid(sums.gather(1, order.last) - s)
    back = torch.zeros_like(s).scatter_add_(1, order.last, pull)
    g = flowing_back(back, s, sums, bounded=ranking.bounded) - pull
    return torch.zeros_like(s).scatter_(1, order.contrasts, g)


def values_by_graph(anchors: Tensor, contrasts: Tensor, relation: Relation, ranking: Ranking) -> tuple[Tensor, Tensor]:
    """Of all anchors, by blocks that autograd and torch.func see through; they keep what the dense backend keeps."""
    blocks = [values_of_logits(anchors[rows] @ contrasts.T, relation, rows, ranking) for rows in row_blocks(relation)]
    if not blocks:
        return anchors.sum(dim=1), relation.labelled.long()
    values, counted = zip(*blocks, strict=True)
    return torch.cat(values), torch.cat(counted)
