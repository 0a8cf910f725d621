"""Rank-N-Contrast of every anchor, from all logits at once (dense) or from blocks of rows (tiled).

A row is put in order, the farthest contrast first. Everything that j competes with then stands in front of it, and one
cumulative log-sum-exp holds the denominators of all j.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from sincere.losses.backends import transforms
from sincere.losses.backends.cumulative import cumulative_logsumexp
from sincere.losses.backends.dense import softplus
from sincere.losses.backends.row_blocks import row_blocks
from sincere.losses.backends.select import select_backend
from sincere.losses.pairs import Pairs
from sincere.losses.relation import Relation

# Of a distance that is not Euclidean torch has one way; of a Euclidean one this is the exact one, in which equal
# distances come out equal.
EXACTLY = "donot_use_mm_for_euclid_dist"


@dataclass(frozen=True)
class Ranking:
    """Whether contrasts at one distance are spared each other, and what a distance is."""

    spared: bool
    power: float  # 1 or 2


def rank_values(pairs: Pairs, ranking: Ranking) -> tuple[Tensor, Tensor]:
    """ℓ of every anchor, and how many contrasts its mean is over."""
    backend, _ = select_backend(pairs)
    if backend == "dense":
        return _values(pairs.logits(), pairs.relation, None, ranking, pairs.bounded)
    contrasts = pairs.anchors if pairs.contrasts is None else pairs.contrasts
    blocks = []
    for rows in row_blocks(pairs.relation):
        given = (pairs.anchors[rows], contrasts, pairs.relation, rows, ranking, pairs.bounded)
        if transforms.are_active(pairs.anchors, contrasts):  # torch.func does not take what forgets and computes again
            blocks.append(_block(*given))
        else:  # everything of the size of the logits is computed again in the backward pass
            blocks.append(checkpoint(_block, *given, use_reentrant=False, preserve_rng_state=False))
    if not blocks:
        return pairs.anchors.sum(dim=1), pairs.relation.labelled.long()
    values, counted = zip(*blocks, strict=True)
    return torch.cat(values), torch.cat(counted)


def _block(
    anchors: Tensor, contrasts: Tensor, relation: Relation, rows: slice, ranking: Ranking, bounded: bool
) -> tuple[Tensor, Tensor]:
    return _values(anchors @ contrasts.T, relation, rows, ranking, bounded)


def _values(
    s: Tensor, relation: Relation, rows: slice | None, ranking: Ranking, bounded: bool
) -> tuple[Tensor, Tensor]:
    """Of the anchors in `rows`, whose logits are s (r, m); None: of all."""
    own, others = relation.anchor if rows is None else relation.anchor[rows], relation.others(rows)
    distances = torch.cdist(own, relation.contrast, p=ranking.power, compute_mode=EXACTLY)
    nearness, order = torch.where(others, -distances, torch.inf).sort(dim=1)  # what takes no part comes last
    takes_part = others.gather(1, order)
    s = torch.where(others, s, 0).gather(1, order)
    # The last place of those that j competes with: its equals, or what stands before the first of them.
    last = torch.searchsorted(nearness, nearness, right=not ranking.spared) - 1
    counts = takes_part & (last >= 0)
    against = cumulative_logsumexp(s, bounded=bounded).gather(1, last.clamp(min=0))
    terms = softplus(against - s) if ranking.spared else against - s
    counted = counts.sum(dim=1)
    return torch.where(counts, terms, 0).sum(dim=1) / counted.clamp(min=1), counted
