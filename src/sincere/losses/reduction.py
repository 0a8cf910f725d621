"""From one value per anchor to the loss: every reduction is Σ_t c_t ℓ_t, and c depends on labels and weights alone."""

import torch
from torch import Tensor

from sincere.losses.gather import gather_rows, sum_over_processes
from sincere.losses.pairs import Pairs
from sincere.losses.relation import compact_ids


def reduce_over_anchors(values: Tensor, valid: Tensor, pairs: Pairs) -> Tensor:
    """Apply the caller's reduction; anchors that are not `valid` carry no loss.

    With `gather` the coefficients come from everybody's anchors and the result is the global loss; "none" gives
    this process's own anchors.
    """
    values = torch.where(valid, values, 0)
    weights = pairs.weights if pairs.weights is not None else torch.ones_like(values)
    reduction = pairs.settings.reduction
    if reduction == "none":
        return torch.where(valid, weights * values, 0).reshape(pairs.batch_shape)
    counted = torch.where(pairs.relation.labelled if reduction == "mean_all" else valid, weights, 0)
    if reduction == "class_mean":
        coefficients = _class_mean_coefficients(counted, pairs)
    elif reduction == "sum":
        coefficients = counted
    else:
        total = sum_over_processes(counted.sum()) if len(pairs.counts) > 1 else counted.sum()
        coefficients = counted / torch.where(total > 0, total, 1)
    loss = (coefficients * values).sum()
    return sum_over_processes(loss) if len(pairs.counts) > 1 else loss


def _class_mean_coefficients(counted: Tensor, pairs: Pairs) -> Tensor:
    """c_t = w_t / (total weight of t's class) / (classes that have a valid anchor)."""
    everybody = gather_rows(counted, pairs.counts)
    members = gather_rows(pairs.relation.anchor, pairs.counts)
    if members.ndim == 1:
        share, classes = _shares_of_classes(everybody, members)
    else:
        members = members.to(everybody.dtype)  # contrasts of a higher precision raise that of the values
        totals = everybody @ members
        share = everybody * (members / torch.where(totals > 0, totals, 1)).sum(dim=1)
        classes = (totals > 0).sum()
    return (share / classes.clamp(min=1))[pairs.own_rows]


def _shares_of_classes(weights: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Each weight over its class's total, and the number of classes with any weight.

    By sorting and not by `torch.unique`, whose result has a shape that depends on the data.
    """
    ids = compact_ids(labels)
    totals = torch.zeros_like(weights).index_add(0, ids, weights)
    own_total = totals[ids]
    return weights / torch.where(own_total > 0, own_total, 1), (totals > 0).sum()
