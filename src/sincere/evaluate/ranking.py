"""Average precision: how far up a ranking what was looked for stands."""

import torch
from torch import Tensor


class Ranking:
    """Samples from high to low scores (n,), some of which are relevant (n,)."""

    def __init__(self, scores: Tensor, relevant: Tensor) -> None:
        scores, self._order = scores.sort(descending=True)
        group = scores.diff().ne(0).cumsum(0)  # samples with equal scores are one
        group = torch.cat([group.new_zeros(1), group])
        self._places = relevant[self._order].bool().nonzero().flatten()
        mine = group[self._places]
        self._ends = torch.searchsorted(group, mine, right=True) - 1  # where the group of each relevant one ends,
        self._last = torch.searchsorted(mine, mine, right=True) - 1  # and which of the relevant is its last

    def average_precision(self, counts: Tensor | None = None) -> Tensor:
        """Σ_g (R_g − R_{g−1})·P_g over the distinct scores g, from high to low, float64 (draws,).

        P_g and R_g are precision and recall of what scores g or more, so that samples with equal scores come at once
        and their order makes no difference. scikit-learn's `average_precision_score` has the same definition. `counts`
        (draws, n) says how often each sample comes in each draw of a bootstrap; without, there is one draw that holds
        each once. NaN where nothing is relevant.
        """
        counts = torch.ones(1, len(self._order), dtype=torch.float64) if counts is None else counts
        found = counts[:, self._order]
        relevant = found[:, self._places]
        seen = found.cumsum(dim=1)[:, self._ends].clamp(min=1)  # a draw may lack all samples so far; it has no hit then
        hits = relevant.cumsum(dim=1)[:, self._last]
        return (relevant * hits / seen).sum(dim=1) / relevant.sum(dim=1)
