"""The statistics by blocks of anchors: any labels, any logits, memory linear in the number of contrasts.

The forward pass forgets the logits; the backward pass computes each block's logits again and turns what the forward
pass left, a few numbers per anchor, into G = ∂L/∂s:

    G_ta = ∂lse_all · e^(s − lse_all)                              for a ∈ A
         + (∂lse_neg + ∂mean_softplus · mean_sigma) e^(s − lse_neg)  for a ∈ N
         + ∂lse_pos · w e^(s − lse_pos) + ∂mean_pos · w/Σw
         − ∂mean_softplus · σ(lse_neg + margin − s) · w/Σw           for a ∈ P
"""

from collections.abc import Collection, Iterator

import torch
from torch import Tensor

from sincere.losses.backends.dense import statistics_of_logits
from sincere.losses.backends.saved import Gradients, Saved
from sincere.losses.relation import Relation
from sincere.losses.statistics import Statistic

# Logits held at once. 2¹⁸ float32 are 1 MiB, and a block needs some eight arrays of that size: what a cache holds. On a
# CPU eight times as many took up to 40 % longer, half as many were no faster.
# A GPU gets more of them: it starts few large operations sooner than many small ones.
LOGITS_PER_BLOCK = 1 << 18
TIMES_LARGER_ON_GPU = 128
FEWEST_ROWS = 16


def row_blocks(relation: Relation) -> Iterator[slice]:
    """Slices of anchors whose logits fit the budget."""
    budget = LOGITS_PER_BLOCK * (1 if relation.usable.device.type == "cpu" else TIMES_LARGER_ON_GPU)
    size = max(FEWEST_ROWS, budget // max(relation.contrasts, 1))
    for start in range(0, relation.anchors, size):
        yield slice(start, min(start + size, relation.anchors))


def forward(
    anchors: Tensor, contrasts: Tensor, relation: Relation, wanted: Collection[Statistic], margin: float
) -> Saved:
    """The wanted statistics of every anchor."""
    saved = Saved.empty(anchors)
    for rows in row_blocks(relation):
        s = anchors[rows] @ contrasts.T
        weights = relation.weights(rows)
        block = statistics_of_logits(s, weights, relation.others(rows), wanted, margin, relation.negative_bias)
        saved.weight_sum[rows] = block.weight_sum
        saved.num_neg[rows] = block.num_neg
        for name, values in block.values.items():
            getattr(saved, name)[rows] = values
        if "mean_softplus" in wanted:
            sigma = torch.sigmoid(block["lse_neg"].unsqueeze(1) + margin - s)
            total = torch.where(weights > 0, sigma * weights, 0).sum(dim=1)
            saved.mean_sigma[rows] = total / torch.where(block.has_positive, block.weight_sum, 1)
    return saved


def backward(
    anchors: Tensor,
    contrasts: Tensor,
    relation: Relation,
    saved: Saved,
    grads: Gradients,
    margin: float,
) -> tuple[Tensor, Tensor]:
    """∂L/∂anchors and ∂L/∂contrasts."""
    anchor_grad, contrast_grad = torch.empty_like(anchors), torch.zeros_like(contrasts)
    for rows in row_blocks(relation):
        g = logit_gradient(anchors[rows] @ contrasts.T, rows, relation, saved, grads, margin)
        torch.mm(g, contrasts, out=anchor_grad[rows])
        contrast_grad.addmm_(g.T, anchors[rows])
    return anchor_grad, contrast_grad


def logit_gradient(s: Tensor, rows: slice, relation: Relation, saved: Saved, grads: Gradients, margin: float) -> Tensor:
    """G for one block, by the formula above."""
    weights, others = relation.weights(rows), relation.others(rows)
    positive = weights > 0
    negative = others & ~positive

    def column(values: Tensor) -> Tensor:
        return values[rows].unsqueeze(1)

    g = torch.zeros_like(s)
    if grads.lse_all is not None:
        g += torch.where(others, column(grads.lse_all) * (s - column(saved.lse_all)).exp(), 0)
    lse_neg_grad = grads.through_lse_neg(saved)
    if lse_neg_grad is not None:
        biased = s if relation.negative_bias is None else s + relation.negative_bias
        g += torch.where(negative, column(lse_neg_grad) * (biased - column(saved.lse_neg)).exp(), 0)
    per_positive = torch.zeros_like(s)
    if grads.lse_pos is not None:
        per_positive += column(grads.lse_pos) * (s - column(saved.lse_pos)).exp()
    if grads.mean_pos is not None:
        per_positive += column(grads.mean_pos / saved.safe_weight_sum)
    if grads.mean_softplus is not None:
        per_positive -= column(grads.mean_softplus / saved.safe_weight_sum) * torch.sigmoid(
            column(saved.lse_neg) + margin - s
        )
    return g + torch.where(positive, per_positive * weights, 0)
