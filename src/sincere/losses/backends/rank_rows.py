"""Rank-N-Contrast of every anchor, from all logits at once (dense) or from blocks of rows (tiled)."""

from torch import Tensor

from sincere.losses.backends import transforms
from sincere.losses.backends.rank_logits import Ranking, values_by_graph, values_of_logits
from sincere.losses.backends.rank_tiled import tiled_values
from sincere.losses.backends.select import select_backend
from sincere.losses.pairs import Pairs


def rank_values(pairs: Pairs, *, spared: bool, power: float) -> tuple[Tensor, Tensor]:
    """ℓ of every anchor, and how many contrasts its mean is over."""
    backend, _ = select_backend(pairs)
    ranking = Ranking(spared, power, pairs.bounded)
    if backend == "dense":
        return values_of_logits(pairs.logits(), pairs.relation, None, ranking)
    contrasts = pairs.anchors if pairs.contrasts is None else pairs.contrasts
    # torch.func cannot take the operators that forget the logits and compute them again.
    values = values_by_graph if transforms.are_active(pairs.anchors, contrasts) else tiled_values
    return values(pairs.anchors, contrasts, pairs.relation, ranking)
