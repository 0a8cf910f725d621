"""What a query finds where samples are equally near: the mean over every order of them.

The samples of one cosine are a group: g samples, of which r are relevant, behind others of which h are relevant. If
every order of the group is as likely, then at its place i, counted from 0:

    P(relevant) = r/g
    P(not relevant, if none before it in the group was) = 1 − r/(g − i)
    E[relevant · number of relevant ones up to here] = r/g · (1 + h + i (r − 1)/(g − 1))

A sample that shares its cosine with nobody is a group of one, and these are the plain measures.

Source: McSherry and Najork 2008, Computing Information Retrieval Performance Measures Efficiently in the Presence of
Tied Scores, ECIR 2008; here with average precision cut off at R.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class TiedRanking:
    """The first places of each query's ranking, float64 (n, depth) each: what is known of the group at that place."""

    size: Tensor  # g
    relevant: Tensor  # r
    place: Tensor  # i
    before: Tensor  # h

    def recall_at(self, k: int) -> Tensor:
        """Chance that one of the k nearest is relevant, (n,)."""
        left = 1 - self.relevant[:, :k] / (self.size[:, :k] - self.place[:, :k])
        return 1 - left.clamp(min=0).prod(dim=1)

    def r_precision(self, counts: Tensor) -> Tensor:
        """Mean share of the first `counts` places that are relevant, (n,)."""
        return (self._chance(counts)).sum(dim=1) / counts

    def average_precision_at_r(self, counts: Tensor) -> Tensor:
        """Mean of (1/R) Σ_{j≤R} relevant_j · (share of the j nearest that are relevant), R = `counts`, (n,)."""
        ranks = torch.arange(1, self.size.shape[1] + 1, device=counts.device)
        others = self.place * (self.relevant - 1) / (self.size - 1).clamp(min=1)
        return (self._chance(counts) * (1 + self.before + others) / ranks).sum(dim=1) / counts

    def _chance(self, counts: Tensor) -> Tensor:
        """The chance of each place to hold a relevant sample; 0 beyond the first `counts`."""
        places = torch.arange(self.size.shape[1], device=counts.device)
        return (self.relevant / self.size).masked_fill(places >= counts.unsqueeze(1), 0)


def tied_ranking(cosines: Tensor, relevant: Tensor, last_size: Tensor, last_relevant: Tensor) -> TiedRanking:
    """From the nearest samples of each query (n, depth), nearest first, in whatever order within a group.

    `last_size` and `last_relevant`, (n,), count the whole group of the last of them, which may go on beyond.
    """
    group = torch.zeros(cosines.shape, dtype=torch.int64, device=cosines.device)
    group[:, 1:] = (cosines[:, 1:] != cosines[:, :-1]).cumsum(dim=1)
    size, hits = torch.zeros(2, *cosines.shape, dtype=torch.float64, device=cosines.device)
    size.scatter_add_(1, group, torch.ones_like(size))
    hits.scatter_add_(1, group, relevant.double())
    first, before = size.cumsum(dim=1) - size, hits.cumsum(dim=1) - hits
    size.scatter_(1, group[:, -1:], last_size.double().unsqueeze(1))
    hits.scatter_(1, group[:, -1:], last_relevant.double().unsqueeze(1))
    place = torch.arange(cosines.shape[1], device=cosines.device) - first.gather(1, group)
    return TiedRanking(size.gather(1, group), hits.gather(1, group), place, before.gather(1, group))
