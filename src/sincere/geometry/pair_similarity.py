"""Mean cosine by class pair: SINCERE's Figure 2."""

import torch

from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.evaluate.inputs import check_is_set
from sincere.geometry.directions import cells, class_sums
from sincere.geometry.record import PairSimilarity
from sincere.losses.similarity import unit_rows
from sincere.nearest.precision import full_precision


@full_precision()
def similarity_by_class_pair(found: EmbeddingSet) -> PairSimilarity:
    """The mean of cos(z_i, z_j) over the pairs of two different samples, for every two classes.

    With S_c the sum of the unit vectors of class c, the cosines between two classes add up to S_a · S_b, and those
    within one to (S_c · S_c − Σ ‖z_i‖²)/2: O(n·d), whatever the number of pairs, and exact.

    >>> pets = EmbeddingSet.from_arrays([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]], ["cat", "cat", "dog"])
    >>> similarity = similarity_by_class_pair(pets)
    >>> round(similarity.within, 6), round(similarity.between, 6)
    (0.6, -0.8)
    """
    check_is_set("what geometry measures", found)
    classes, rows = len(found.class_names), unit_rows(found.embeddings.double())
    sums = class_sums(rows, found.labels, classes=classes)
    counts = torch.bincount(found.labels, minlength=classes)
    own = torch.zeros(classes, dtype=torch.float64, device=rows.device)
    own.index_add_(0, found.labels, rows.square().sum(dim=1))
    totals = sums @ sums.T
    totals.diagonal().copy_((totals.diagonal() - own) / 2)
    pairs = counts.unsqueeze(1) * counts
    pairs.diagonal().copy_(counts * (counts - 1) // 2)
    # A class of one sample leaves rounding over no pair at all.
    means = ((totals + totals.T) / 2 / pairs).masked_fill(pairs == 0, torch.nan)
    return PairSimilarity(found.class_names, cells(means), tuple(map(tuple, pairs.tolist())))
