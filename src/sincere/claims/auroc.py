"""How well cosine tells pairs of a class from pairs of two classes at any threshold: the area under the ROC curve.

It is the chance that a pair of the first kind has the higher cosine, ties half, counted exactly over all pairs. Unlike
the overlap of two histograms it knows of no bins, and it asks which side of each other the two kinds of pairs lie on.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.geometry.directions import Directions, directions_of


def auroc(found: EmbeddingSet, chosen: int | None = None) -> float:
    """Of pairs within classes over pairs between classes; or of those of one class alone."""
    targets, noises = _ranked(directions_of(found), chosen)
    return float(_below(noises, targets).sum()) / (len(targets) * len(noises))


def auroc_left_out(found: EmbeddingSet, chosen: int) -> Tensor:
    """Of one class without each sample in turn: float64 (n,), members of the class first, as `separation_left_out`.

    Without a member the wins of all its pairs are missing; those of its pairs over its own pairs are missing once, and
    would otherwise be taken off twice.
    """
    rows = directions_of(found)
    targets, noises = _ranked(rows, chosen)
    mine = rows.numbers == chosen
    cosines = rows.rows[mine] @ rows.rows.T
    members, others = len(cosines), len(rows.rows) - len(cosines)
    apart = ~torch.eye(members, dtype=torch.bool)
    own = cosines[:, mine][apart].view(members, -1)
    other = cosines[:, ~mine]
    of_other = len(targets) - _below(targets, other)
    of_member = (_below(noises, own) - _below(other.sort(dim=1).values, own)).sum(dim=1) + of_other.sum(dim=1)
    wins = _below(noises, targets).sum() - torch.cat([of_member, of_other.sum(dim=0)])
    without_member = (len(targets) - (members - 1)) * (len(noises) - others)
    without_other = len(targets) * (len(noises) - members)
    pairs = torch.tensor([without_member, without_other]).repeat_interleave(torch.tensor([members, others]))
    return wins / pairs


def _classes(rows: Directions, chosen: int | None) -> Iterator[Tensor]:
    """Which rows each class has: (n,) of bool."""
    for label in torch.unique(rows.numbers).tolist() if chosen is None else [chosen]:
        yield rows.numbers == label


def _ranked(rows: Directions, chosen: int | None) -> tuple[Tensor, Tensor]:
    """Cosines within classes and between them, every pair once, from the lowest up."""
    within, between = [], []
    for members in _classes(rows, chosen):
        own = rows.rows[members]
        above = torch.triu_indices(len(own), len(own), offset=1)
        within.append((own @ own.T)[above[0], above[1]])
        # Rows stand class by class: of all classes each meets only those after it.
        last = int(members.nonzero().max())
        between.append((own @ (rows.rows[~members] if chosen is not None else rows.rows[last + 1 :]).T).flatten())
    return torch.cat(within).sort().values, torch.cat(between).sort().values


def _below(ranked: Tensor, values: Tensor) -> Tensor:
    """How many of `ranked` are below each value, ties half: float64."""
    values = values.contiguous()
    not_above = torch.searchsorted(ranked, values, right=True).double()
    return (torch.searchsorted(ranked, values).double() + not_above) / 2
