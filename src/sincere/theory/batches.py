"""SupCon summed over all batches of a size: its bound, and why no single batch shows it (Graf et al., 2021, Theorem 2).

A batch is a set of b of the N points (`draw="sets"`, each point at most once), or a multiset (`draw="multisets"`,
points may come again, as when indices are drawn with replacement; every multiset counts once). The authors'
slides say "all batches of size b" and no more; the bound has the same form for both, with other numbers of batches.
"""

import math
from collections.abc import Sequence
from itertools import combinations, combinations_with_replacement
from typing import Literal

import torch
from torch import Tensor

from sincere.checks import check_choice, check_embeddings, check_finite, check_temperature, shape_of
from sincere.defaults import usual_defaults
from sincere.errors import InputError, OptionError
from sincere.theory.arrangement import class_labels

Draw = Literal["sets", "multisets"]
LARGEST = 2_000_000  # batches that an enumeration may have


def number_of_batches(points: int, batch: int, draw: Draw = "sets") -> int:
    """How many batches there are: C(N, b) sets, C(N + b − 1, b) multisets."""
    check_choice("draw", draw, ("sets", "multisets"))
    if draw == "sets":
        return math.comb(points, batch)
    return math.comb(points + batch - 1, batch) if points + batch else 1


def pairs_with_members(counts: Sequence[int], batch: int, draw: Draw = "sets") -> tuple[int, ...]:
    """M_l for l = 0 … b: the number of (batch, class) pairs in which the class has l members in the batch."""
    total = sum(counts)
    return tuple(
        sum(number_of_batches(n, size, draw) * number_of_batches(total - n, batch - size, draw) for n in counts)
        for size in range(batch + 1)
    )


def supcon_bound_over_batches(
    counts: Sequence[int], batch: int, *, temperature: float = 1.0, draw: Draw = "sets"
) -> float:
    """Σ_{l≥2} l·M_l·log(l − 1 + (b − l) e^{−K/((K−1)τ)}): the least sum of SupCon over all batches of size b.

    Source: Graf et al., 2021, Theorem 2, with ρ² = 1/τ for points of norm one. It is a bound for classes of equal
    size, and it is the value at the regular simplex for any.

    >>> round(supcon_bound_over_batches((3, 3), 3, temperature=1.0), 4)
    8.7283
    """
    check_temperature(temperature)
    classes = len(counts)
    if classes < 2 or min(counts) < 0 or not 1 <= batch <= sum(counts):
        raise OptionError(
            "the bound needs at least two classes, of 0 points or more, and a batch of at most all points: "
            f"got counts={tuple(counts)}, batch={batch}."
        )
    other = math.exp(-classes / ((classes - 1) * temperature))
    members = pairs_with_members(counts, batch, draw)
    return sum(size * members[size] * math.log(size - 1 + (batch - size) * other) for size in range(2, batch + 1))


@usual_defaults()
def all_batches(points: int, batch: int, draw: Draw = "sets") -> Tensor:
    """Every batch, as rows of indices (batches, b)."""
    if number_of_batches(points, batch, draw) > LARGEST:
        raise OptionError(
            f"{points} points have {number_of_batches(points, batch, draw):,} batches of {batch}, more than "
            f"{LARGEST:,}: take fewer points."
        )
    choose = combinations if draw == "sets" else combinations_with_replacement
    return torch.tensor(list(choose(range(points), batch)), dtype=torch.int64).reshape(-1, batch)


def supcon_over_batches(points: Tensor, labels: Tensor, batches: Tensor, *, temperature: float = 1.0) -> Tensor:
    """L_SC: SupCon summed over the anchors of every batch, all batches at once; anchors alone in theirs count 0.

    Source: Graf et al., 2021, the definition of the supervised contrastive loss, with ⟨·, ·⟩/τ.
    """
    similarity = points @ points.T / temperature
    pairs = batches.unsqueeze(2) * len(points) + batches.unsqueeze(1)  # (batches, b, b)
    # One flat index: its backward pass is many times faster than that of two.
    s = similarity.flatten().index_select(0, pairs.flatten()).reshape(pairs.shape)
    classes = labels[batches]
    itself = torch.eye(batches.shape[1], dtype=torch.bool, device=batches.device)
    same = (classes.unsqueeze(2) == classes.unsqueeze(1)) & ~itself
    num_pos = same.sum(dim=2)
    lse = torch.logsumexp(s.masked_fill(itself, -torch.inf), dim=2)
    mean_pos = torch.where(same, s, 0).sum(dim=2) / num_pos.clamp(min=1)
    return torch.where(num_pos > 0, lse - mean_pos, 0).sum()


@usual_defaults()
def supcon_sum(
    points: Tensor, counts: Sequence[int], batch: int, *, temperature: float = 1.0, draw: Draw = "sets"
) -> float:
    """L_SC of points in the order of `counts`, by going through every batch."""
    check_temperature(temperature)
    if any(count < 0 for count in counts) or batch < 1:
        raise OptionError(f"counts must be at least 0 and a batch at least 1: got {tuple(counts)} and {batch}.")
    labels = class_labels(tuple(counts))
    check_embeddings("points", points)
    if points.ndim != 2 or len(points) != len(labels):
        raise InputError(f"points must be ({len(labels)}, d), as many as counts say: got {shape_of(points)}.")
    check_finite("points", points)
    batches = all_batches(len(labels), batch, draw).to(points.device)
    value = supcon_over_batches(points.detach(), labels.to(points.device), batches, temperature=temperature)
    return float(value)
