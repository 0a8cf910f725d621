"""Retrieval: how many of a query's nearest samples share its class.

Each sample is a query that looks among the others. Its R is the number of others of its class. `relevant[i, j]` says
whether the j-th nearest of query i has its class. Queries with R = 0 have nothing to find; they are left out of every
mean, and counted. Where samples are equally near, a value is the mean over every order of them (`ties`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sincere.checks import check_labels
from sincere.errors import InputError, OptionError
from sincere.evaluate.ties import TiedRanking, tied_ranking
from sincere.nearest.cosines import comparable
from sincere.nearest.neighbours import PARTS, cosine_tiles
from sincere.nearest.precision import full_precision


def recall_at(relevant: Tensor, k: int) -> Tensor:
    """1 where one of the k nearest has the query's class: recall@k as metric learning means it."""
    return relevant[:, :k].any(dim=1)


def r_precision(relevant: Tensor, counts: Tensor) -> Tensor:
    """Share of the R nearest that have the query's class."""
    return _first_r(relevant, counts).sum(dim=1).double() / counts


def average_precision_at_r(relevant: Tensor, counts: Tensor) -> Tensor:
    """(1/R) Σ_{j≤R} relevant_j · (share of the j nearest that are relevant); its mean over queries is MAP@R.

    Source: Musgrave, Belongie, Lim 2020, arXiv:2003.08505, Section 3.2.
    """
    within = _first_r(relevant, counts)
    ranks = torch.arange(1, relevant.shape[1] + 1, device=relevant.device)
    precision = within.cumsum(dim=1).double() / ranks
    return (precision * within).sum(dim=1) / counts


def _first_r(relevant: Tensor, counts: Tensor) -> Tensor:
    return relevant & (torch.arange(relevant.shape[1], device=relevant.device) < counts.unsqueeze(1))


@dataclass(frozen=True)
class Retrieved:
    """One value for each query that has something to find."""

    queries: Tensor  # their places, (q,)
    recall: dict[int, Tensor]  # k → float64 (q,): 1 or 0; between them, a chance, where samples tie for the k-th place
    r_precision: Tensor  # float64 (q,)
    average_precision: Tensor  # float64 (q,)


def as_hits(chances: Tensor) -> Tensor:
    """Recall as truth values where every query has 1 or 0; as it is where samples tie for the k-th place."""
    return chances.bool() if bool(((chances == 0) | (chances == 1)).all()) else chances


@full_precision()
def retrieve(queries: Tensor, labels: Tensor, *, ks: Sequence[int] = (1, 5, 10)) -> Retrieved:
    """Every metric of this page, by cosine. Each query looks among the other queries."""
    if not ks or min(ks) < 1:
        raise OptionError(f"ks must hold numbers from 1: got {tuple(ks)}.")
    ks = sorted(set(ks))
    queries, _ = comparable(queries, None)
    check_labels("labels", labels, queries.shape[0], "queries", queries.device)
    labels = labels.long()  # torch finds no least one of wider bytes
    if labels.numel() and (least := int(labels.min())) < 0:
        raise InputError(f"labels must be class numbers from 0: got {least}. Leave unlabelled samples out.")
    _, place, sizes = torch.unique(labels, return_inverse=True, return_counts=True)
    counts = sizes[place] - 1  # a query does not find itself
    columns = labels.shape[0] - 1
    # Room for all queries at once: parts that are kept between large tiles that come and go would hold these, too.
    precision, average, *recall = torch.zeros(2 + len(ks), labels.shape[0], dtype=torch.float64, device=labels.device)
    for tile, cosines in cosine_tiles(queries):
        count = counts[tile]
        if not int(count.max()):
            continue
        depth = min(max(int(count.max()), *ks), columns)
        values, places = cosines.topk(min(depth + 1, columns), dim=1)  # one more: does a tie go on beyond?
        relevant = labels[places[:, :depth]] == labels[tile].unsqueeze(1)
        precision[tile] = r_precision(relevant, count)
        average[tile] = average_precision_at_r(relevant, count)
        for k, hits in zip(ks, recall, strict=True):
            hits[tile] = recall_at(relevant, k).double()
        tied = _mixed(values, relevant).nonzero().flatten()
        for rows in tied.tensor_split(PARTS) if tied.numel() else ():
            own = rows + tile.start
            ranking = _tied(cosines[rows], values[rows, :depth], relevant[rows], labels, labels[own])
            precision[own] = ranking.r_precision(counts[own])
            average[own] = ranking.average_precision_at_r(counts[own])
            for k, hits in zip(ks, recall, strict=True):
                hits[own] = ranking.recall_at(k)
    found = counts > 0
    by_k = {k: hits[found] for k, hits in zip(ks, recall, strict=True)}
    return Retrieved(found.nonzero().flatten(), by_k, precision[found], average[found])


def _mixed(values: Tensor, relevant: Tensor) -> Tensor:
    """Queries for which a change of order within a tie can make a difference, bool (n,)."""
    depth = relevant.shape[1]
    found = ((values[:, 1:depth] == values[:, : depth - 1]) & (relevant[:, 1:] != relevant[:, :-1])).any(dim=1)
    return found | (values[:, depth - 1] == values[:, depth]) if values.shape[1] > depth else found


def _tied(cosines: Tensor, values: Tensor, relevant: Tensor, labels: Tensor, own: Tensor) -> TiedRanking:
    """Of queries of the classes `own` with ties: `cosines` with all samples, `values` the largest of them."""
    last = cosines == values[:, -1:]
    return tied_ranking(values, relevant, last.sum(dim=1), (last & (labels == own.unsqueeze(1))).sum(dim=1))
