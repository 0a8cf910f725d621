"""The definition: all n×m logits at once, differentiated by autograd, any number of times."""

from collections.abc import Collection

import torch
from torch import Tensor

from sincere.losses.pairs import Pairs
from sincere.losses.statistics import RowStatistics, Statistic, softplus


def row_statistics(pairs: Pairs, wanted: Collection[Statistic], margin: float) -> RowStatistics:
    """Every statistic of every anchor from the whole matrix."""
    relation = pairs.relation
    return statistics_of_logits(
        pairs.logits(), relation.weights(), relation.others(), wanted, margin, relation.negative_bias
    )


def statistics_of_logits(
    s: Tensor,
    weights: Tensor,
    others: Tensor,
    wanted: Collection[Statistic],
    margin: float,
    negative_bias: Tensor | None = None,
) -> RowStatistics:
    """Every statistic straight from its formula, for the anchors whose logits are the rows of `s`."""
    positive = weights > 0
    negative = others & ~positive
    w = weights.to(s.dtype)
    weight_sum = w.sum(dim=1)
    share = w / torch.where(weight_sum > 0, weight_sum, 1).unsqueeze(1)

    values: dict[Statistic, Tensor] = {}
    if "lse_all" in wanted:
        values["lse_all"] = masked_logsumexp(s, others)
    if "lse_neg" in wanted or "mean_softplus" in wanted:
        values["lse_neg"] = masked_logsumexp(s if negative_bias is None else s + negative_bias, negative)
    if "lse_pos" in wanted:
        values["lse_pos"] = masked_logsumexp(s + torch.where(positive, w, 1).log(), positive)
    if "mean_pos" in wanted:
        values["mean_pos"] = (share * torch.where(positive, s, 0)).sum(dim=1)
    if "mean_softplus" in wanted:
        gap = values["lse_neg"].unsqueeze(1) + margin - torch.where(positive, s, 0)
        values["mean_softplus"] = (share * softplus(gap)).sum(dim=1)
    return RowStatistics(weight_sum, negative.sum(dim=1), values)


def masked_logsumexp(s: Tensor, mask: Tensor) -> Tensor:
    """log Σ_{a in mask} e^{s_a} per row; −inf, with a zero gradient, where the mask is empty.

    The maximum is taken inside the mask, so that no excluded logit can make the others underflow.
    """
    if s.shape[1] == 0:
        return s.sum(dim=1) - torch.inf
    inside = s.masked_fill(~mask, -torch.inf)
    highest = inside.detach().amax(dim=1, keepdim=True)
    highest = torch.where(highest == -torch.inf, 0, highest)
    total = (inside - highest).exp().sum(dim=1)
    empty = ~mask.any(dim=1)
    return torch.where(empty, -torch.inf, torch.where(empty, 1, total).log() + highest.squeeze(1))
