"""The statistics of a batch contrasted with itself: half the products, one exponential a pair, few masks.

Three facts make this path fast.
1. s_ij = s_ji, so one tile of e^s serves rows i and rows j, forward and backward: 4n²d operations, not 6n²d.
2. Sorted by class, nearly every tile holds negatives alone and needs no label. Positives are few; they are computed
   apart, class by class.
3. Where |s| ≤ 40 for every pair, e^s neither overflows nor vanishes in float32 even when summed over millions, so no
   row maximum is needed and both rows of a pair share one exponential: ∂L/∂s_ij + ∂L/∂s_ji = e^s_ij (u_i + u_j),
   u = ∂lse / Σe^s. Cosine similarity guarantees the bound for τ ≥ 1/40.

All rows here are in class order and scaled so that 2^<row_i, row_j> = e^s: exp2 costs half of exp.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import log, sqrt

import torch
from torch import Tensor

from sincere.losses.backends.class_layout import Block, ClassGroup, ClassLayout, class_groups
from sincere.losses.backends.saved import Gradients, Saved
from sincere.losses.statistics import Statistic, softplus

LARGEST_LOGIT = 40.0
LN2 = log(2.0)
TO_BASE_2 = 1 / sqrt(LN2)
FEW_CLASSES = 64  # up to here it is cheaper to blank classes one by one than to compare all labels of a tile


def fits(rows: Tensor) -> bool:
    """Does fact 3 hold? |s_ij| ≤ max ‖row‖²."""
    return rows.shape[0] > 0 and float(rows.detach().square().sum(dim=1).max()) <= LARGEST_LOGIT


def forward(
    ordered: Tensor, layout: ClassLayout, wanted: Collection[Statistic], margin: float, weights: Tensor | None = None
) -> Saved:
    """The wanted statistics of every row; `weights` says how much each row counts where it is a negative."""
    rows = ordered * TO_BASE_2
    saved = Saved.empty(rows)
    saved.weight_sum.copy_(layout.row_sizes - 1)
    saved.num_neg.copy_(rows.shape[0] - layout.row_sizes)
    negatives = positives = torch.zeros_like(saved.weight_sum)
    if {"lse_all", "lse_neg", "mean_softplus"} & set(wanted):
        negatives = _sum_over_negatives(rows, layout, weights)
        saved.lse_neg.copy_(negatives.log())
    if {"lse_all", "lse_pos"} & set(wanted):
        positives = _sum_over_positives(rows, layout)
        saved.lse_pos.copy_(positives.log())
        saved.lse_all.copy_((negatives + positives).log())
    if "mean_softplus" in wanted:
        _average_softplus(rows, layout, saved, margin)
    if "mean_pos" in wanted:
        total = _class_sums(rows, layout) - rows
        saved.mean_pos.copy_((rows * total).sum(dim=1) * LN2 / saved.safe_weight_sum)
    return saved


def backward(
    ordered: Tensor, layout: ClassLayout, saved: Saved, grads: Gradients, margin: float, weights: Tensor | None = None
) -> Tensor:
    """∂L/∂rows."""
    rows = ordered * TO_BASE_2
    grad = torch.zeros_like(rows)
    c = _pair_coefficients(saved, grads, margin)
    if c.negative is not None:
        _add_gradient_of_negatives(grad, rows, layout, c.negative, weights)
    if c.positive is not None or c.pull is not None:
        _add_gradient_of_positives(grad, rows, layout, c)
    elif c.mean is not None:  # nothing but the mean: no pair of positives need be looked at
        share = c.mean.unsqueeze(1)
        mine = rows * share
        grad += share * (_class_sums(rows, layout) - rows) + _class_sums(mine, layout) - mine
    return grad.mul_(1 / TO_BASE_2)


@dataclass(frozen=True)
class PairCoefficients:
    """∂L/∂s_ij + ∂L/∂s_ji = e^s (negative_i + negative_j) for negatives, and for positives
    e^s (positive_i + positive_j) + mean_i + mean_j − pull_i σ(gap_i − s) − pull_j σ(gap_j − s).

    In tight classes the first two of these nearly cancel for each pair: they are added up before anything is summed
    over pairs."""

    negative: Tensor | None
    positive: Tensor | None
    mean: Tensor | None
    pull: Tensor | None
    gap: Tensor


def _pair_coefficients(saved: Saved, grads: Gradients, margin: float) -> PairCoefficients:
    """What each row brings to its pairs; ∂lse/Σe^s is zero where the sum is empty."""
    among_negatives = (grads.through_lse_neg(saved), saved.lse_neg)
    return PairCoefficients(
        negative=_per_exponential((grads.lse_all, saved.lse_all), among_negatives),
        positive=_among_positives(saved, grads),
        mean=None if grads.mean_pos is None else grads.mean_pos / saved.safe_weight_sum,
        pull=None if grads.mean_softplus is None else grads.mean_softplus / saved.safe_weight_sum,
        gap=saved.lse_neg + margin,
    )


def _per_exponential(*terms: tuple[Tensor | None, Tensor]) -> Tensor | None:
    parts = [torch.where(lse == -torch.inf, 0, grad * (-lse).exp()) for grad, lse in terms if grad is not None]
    return torch.stack(parts).sum(dim=0) if parts else None


def _among_positives(saved: Saved, grads: Gradients) -> Tensor | None:
    """∂lse_all/Σ_A + ∂lse_pos/Σ_P as (∂lse_all + ∂lse_pos)/Σ_A + ∂lse_pos Σ_N/(Σ_A Σ_P): of L_in, whose derivatives
    are opposite, next to nothing is left of either where classes are tight."""
    if grads.lse_all is None or grads.lse_pos is None:
        return _per_exponential((grads.lse_all, saved.lse_all), (grads.lse_pos, saved.lse_pos))
    rest = (saved.lse_neg - saved.lse_all - saved.lse_pos).exp()
    has_positives = saved.lse_pos != -torch.inf
    return torch.where(
        has_positives, (grads.lse_all + grads.lse_pos) * (-saved.lse_all).exp() + grads.lse_pos * rest, 0
    )


class NegativeTiles:
    """Every tile that holds a negative, once for both of its sides; the tiles share their memory."""

    def __init__(self, rows: Tensor, layout: ClassLayout) -> None:
        self.rows, self.layout = rows, layout
        largest = max((block.size for block in layout.blocks), default=0)
        self.memory = rows.new_empty(2, largest * largest)

    def __iter__(self) -> Iterator[tuple[Block, Block]]:
        blocks = self.layout.blocks
        for i, block in enumerate(blocks):
            if block.piece_of is None:
                yield block, block
            for other in blocks[i + 1 :]:
                if not block.same_class(other):
                    yield block, other

    def exponentials(self, block: Block, other: Block) -> Tensor:
        """e^s of a tile, 0 where a pair is no negative."""
        tile = self.buffer(0, block, other)
        torch.mm(self.rows[block.rows], self.rows[other.rows].T, out=tile)
        return self.without_positives(tile.exp2_(), block) if block is other else tile.exp2_()

    def buffer(self, which: int, block: Block, other: Block) -> Tensor:
        return self.memory[which, : block.size * other.size].view(block.size, other.size)

    def without_positives(self, tile: Tensor, block: Block) -> Tensor:
        if len(block.edges) <= FEW_CLASSES:
            for left, right in pairwise(block.edges):
                tile[left:right, left:right] = 0
            return tile
        classes = self.layout.classes[block.rows]
        return tile.masked_fill_(classes.unsqueeze(1) == classes, 0)


def _sum_over_negatives(rows: Tensor, layout: ClassLayout, weights: Tensor | None) -> Tensor:
    """Σ_N w e^s of every row."""
    total = rows.new_zeros(rows.shape[0])
    tiles = NegativeTiles(rows, layout)
    for block, other in tiles:
        e = tiles.exponentials(block, other)
        total[block.rows] += e.sum(dim=1) if weights is None else e @ weights[other.rows]
        if block is not other:
            total[other.rows] += e.sum(dim=0) if weights is None else weights[block.rows] @ e
    return total


def _add_gradient_of_negatives(
    grad: Tensor, rows: Tensor, layout: ClassLayout, coefficient: Tensor, weights: Tensor | None
) -> None:
    """A pair counts for its first row by the weight of its second one, and the other way round."""
    tiles = NegativeTiles(rows, layout)
    for block, other in tiles:
        e = tiles.exponentials(block, other)
        both = tiles.buffer(1, block, other)
        if weights is None:
            torch.add(coefficient[block.rows].unsqueeze(1), coefficient[other.rows], out=both)
        else:
            torch.outer(coefficient[block.rows], weights[other.rows], out=both)
            both.addr_(weights[block.rows], coefficient[other.rows])
        e.mul_(both)
        grad[block.rows].addmm_(e, rows[other.rows])
        if block is not other:
            grad[other.rows].addmm_(e.T, rows[block.rows])


def _logits(rows: Tensor, group: ClassGroup) -> Tensor:
    """s of the positives of some classes, (c, r, L)."""
    return torch.bmm(rows[group.rows], rows[group.members].mT).mul_(LN2)


def _add_per_row(target: Tensor, group: ClassGroup, values: Tensor) -> None:
    """target[row] += Σ over members of `values` where they are positives."""
    sums = torch.where(group.positive, values, 0).sum(dim=2)
    target.index_add_(0, group.rows.flatten(), sums.flatten())


def _sum_over_positives(rows: Tensor, layout: ClassLayout) -> Tensor:
    """Σ_P e^s of every row."""
    total = rows.new_zeros(rows.shape[0])
    for group in class_groups(layout):
        _add_per_row(total, group, _logits(rows, group).exp_())
    return total


def _average_softplus(rows: Tensor, layout: ClassLayout, saved: Saved, margin: float) -> None:
    """mean_softplus and mean_sigma of every row."""
    for group in class_groups(layout):
        gap = (saved.lse_neg[group.rows] + margin).unsqueeze(2) - _logits(rows, group)
        _add_per_row(saved.mean_softplus, group, softplus(gap))
        _add_per_row(saved.mean_sigma, group, gap.sigmoid_())
    saved.mean_softplus.div_(saved.safe_weight_sum)
    saved.mean_sigma.div_(saved.safe_weight_sum)


def _add_gradient_of_positives(grad: Tensor, rows: Tensor, layout: ClassLayout, c: PairCoefficients) -> None:
    for group in class_groups(layout):
        s = _logits(rows, group)
        h = torch.zeros_like(s)
        if c.pull is not None:
            h -= c.pull[group.rows].unsqueeze(2) * torch.sigmoid(c.gap[group.rows].unsqueeze(2) - s)
            h -= c.pull[group.members].unsqueeze(1) * torch.sigmoid(c.gap[group.members].unsqueeze(1) - s)
        if c.positive is not None:
            h += s.exp_().mul_(c.positive[group.rows].unsqueeze(2) + c.positive[group.members].unsqueeze(1))
        if c.mean is not None:
            h += c.mean[group.rows].unsqueeze(2) + c.mean[group.members].unsqueeze(1)
        h = torch.where(group.positive, h, 0)
        grad.index_add_(0, group.rows.flatten(), torch.bmm(h, rows[group.members]).flatten(0, 1))


def _class_sums(rows: Tensor, layout: ClassLayout) -> Tensor:
    """For each row the sum of its class's rows, itself included; added up in float64, as large classes want it."""
    precise = rows.dtype if rows.device.type == "mps" else torch.float64
    totals = torch.zeros(len(layout.sizes), rows.shape[1], dtype=precise, device=rows.device)
    for block in layout.blocks:
        totals.index_add_(0, layout.classes[block.rows], rows[block.rows].to(precise))
    return totals.to(rows.dtype)[layout.classes]
