"""The floor of each loss: its value at the regular simplex, where training leads.

There all members of a class coincide and any two classes have cosine −1/(K−1), so a positive's logit exceeds a
negative's by g = K/((K−1)τ). For a batch with equally many samples of each class, this is the least value possible
(Graf et al., 2021, arXiv 2102.08817, Theorem 2 for SupCon); K ≤ d + 1 classes can reach it. A batch with unequal
classes can go a little lower.
"""

import torch
from torch import Tensor

from sincere.losses.statistics import softplus


def simplex_gap(classes: int, temperature: float) -> float:
    """g = K/((K−1)τ): by how much positives' logits exceed negatives' at the simplex."""
    return classes / ((classes - 1) * temperature) if classes > 1 else float("inf")


def simplex_floors(num_pos: Tensor, num_neg: Tensor, gap: float, epsilon: float) -> dict[str, Tensor]:
    """The value of every loss at the simplex, for anchors with |P| and |N| contrasts; each (anchors,) float64."""
    p, n = num_pos.double(), num_neg.double()
    log_negatives = n.log() - gap  # log Σ_N e^(s_n − s_p)
    supcon = torch.logaddexp(p.log(), log_negatives)
    return {
        "sincere": softplus(log_negatives),
        "supcon": supcon,
        "supcon_in": supcon,
        "eps_supinfonce": softplus(log_negatives + epsilon) - epsilon,
        "decoupled": log_negatives,
        "set_nce": _set_floor(p, n, gap),
    }


def balanced_floors(rows: int, classes: int, temperature: float, epsilon: float) -> dict[str, float]:
    """The value of every loss at the simplex where classes compete alike, with the mean over classes: every anchor has
    the same, as if all classes had the mean size. No arrangement of classes of any sizes goes below it."""
    typical = rows / classes
    own, others = torch.tensor([[typical - 1], [rows - typical]], dtype=torch.float64)
    floors = simplex_floors(own, others, simplex_gap(classes, temperature), epsilon)
    return {name: float(value) for name, value in floors.items() if name != "set_nce"}  # in which sets compete


def _set_floor(num_pos: Tensor, num_neg: Tensor, gap: float) -> Tensor:
    """(1/k) log Σ_j C(k, j) C(N, j) e^(−jg): exchanging j members for j others costs jg."""
    exchanges = int(torch.minimum(num_pos, num_neg).max())
    if exchanges == 0:
        return torch.zeros_like(num_pos)
    # Computed once for every class size: a row for every anchor would take anchors × exchanges numbers.
    sizes, which = torch.unique(torch.stack([num_pos, num_neg], dim=1), dim=0, return_inverse=True)
    k, n = sizes[:, :1], sizes[:, 1:]
    j = torch.arange(1 + exchanges, dtype=torch.float64, device=num_pos.device)
    floors: Tensor = torch.logsumexp(_log_binomial(k, j) + _log_binomial(n, j) - j * gap, dim=1) / k.squeeze(1)
    each: Tensor = floors[which]
    return each


def _log_binomial(n: Tensor, j: Tensor) -> Tensor:
    inside = j <= n
    rest = torch.where(inside, n - j, 0)
    return torch.where(inside, torch.lgamma(n + 1) - torch.lgamma(j + 1) - torch.lgamma(rest + 1), -torch.inf)
