"""The probability that k elements are drawn, and that each is among them, by a tree of products.

Elements are drawn independently, each with its own probability (sincere.losses.subsets). The number drawn from a group
has a distribution; that of two groups together is the product of both, as polynomials.

Upwards: groups are joined in pairs until one group holds all elements. Its distribution gives Pr[k].
Downwards: for each group, the distribution of what all *other* elements contribute. For a group of one element it gives
Pr[k − 1 of the others], which is what that element's inclusion probability needs.

A row of m elements costs O(m·k) operations, like the recurrence over the elements, but O(k log m) calls of PyTorch
instead of O(m), and memory O(m log k) instead of O(m·k). All sums are of positive numbers and nothing is divided out,
so nothing cancels.

Arrays are (counts, groups, rows): one call works on neighbours in memory.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.losses.backends import transforms
from sincere.losses.subsets import count_probability


def count_distribution(p: Tensor, largest: int) -> Tensor:
    """Pr[j elements are drawn] for j = 0 … largest, of each row of p (rows, m): (rows, largest + 1)."""
    whole = _distributions(p, largest)[-1][:, 0]
    return F.pad(whole, (0, 0, 0, largest + 1 - whole.shape[0])).T


def exact_log_probability(p: Tensor, k: Tensor) -> Tensor:
    """log Pr[k elements are drawn], differentiable by autograd; O(m·k) a row, and O(m²) where k cannot be looked at."""
    if transforms.hide_values(p):
        return count_probability(p, k).log()
    return count_distribution(p, _largest(k)).gather(1, k.unsqueeze(1)).squeeze(1).log()


def inclusion(p: Tensor, k: Tensor) -> Tensor:
    """π_a = Pr[a is drawn | k elements are drawn]: (rows, m), each in [0, 1], Σ_a π_a = k.

    π_a = p_a Pr[k − 1 of the others are drawn] / Pr[k are drawn].
    """
    largest = _largest(k)
    levels = _distributions(p, largest)
    of_size_k = levels.pop()[:, 0].gather(0, k.unsqueeze(0)).squeeze(0)
    # lacking[i]: the probability that k − 1 − i are drawn outside of the group, so that i are lacking from inside, not
    # counting the element that is asked for. Outside of the group of all elements there is nothing to draw.
    lacking = p.new_zeros(max(1, largest), 1, p.shape[0])
    lacking.scatter_(0, (k - 1).clamp(min=0).view(1, 1, -1), (k > 0).to(p.dtype).view(1, 1, -1))
    while levels:
        lacking = _lacked_by_halves(lacking, levels.pop())
    of_others = lacking[0, : p.shape[1]].T
    return (p * of_others / torch.where(of_size_k > 0, of_size_k, 1).unsqueeze(1)).clamp(max=1)


def numbers_held(elements: int, largest: int) -> int:
    """How many numbers a row of so many elements takes at once, if at most `largest` are drawn."""
    return elements * (largest.bit_length() + 11)


def _largest(k: Tensor) -> int:
    return int(k.max()) if k.numel() else 0


def _distributions(p: Tensor, largest: int) -> list[Tensor]:
    """Pr[j are drawn] for j up to `largest`, level by level: for groups of 1, 2, 4, … elements, up to all of them.

    Of the groups of a level, the first half is joined with the second half.
    """
    if p.shape[1] == 0:
        p = F.pad(p, (0, 1))  # an element that is never drawn
    chance = p.T.contiguous()
    level = torch.stack([1 - chance, chance])[: largest + 1]
    levels = []
    while level.shape[1] > 1:
        level = _even(level)
        levels.append(level)
        left, right = level.chunk(2, dim=1)
        level = _joined(left, right, largest)
    return [*levels, level]


def _even(level: Tensor) -> Tensor:
    """An even number of groups: if it is odd, with one more of which nothing is ever drawn."""
    if level.shape[1] % 2 == 0:
        return level
    empty = level.new_zeros(level.shape[0], 1, level.shape[2])
    empty[0] = 1
    return torch.cat([level, empty], dim=1)


def _joined(left: Tensor, right: Tensor, largest: int) -> Tensor:
    """The distributions of groups joined in pairs: Σ_j left[j] right[i − j] for i up to `largest`."""
    entries = left.shape[0]
    size = min(2 * entries - 1, largest + 1)
    before = entries - 1
    right = F.pad(right, (0, 0, 0, 0, before, size - entries))
    # Nothing is written in place: torch.func.linearize would lose it.
    out = left[0] * right[before : before + size]
    for j in range(1, entries):
        out = torch.addcmul(out, left[j], right[before - j : before - j + size])
    return out


def _lacked_by_halves(lacking: Tensor, halves: Tensor) -> Tensor:
    """The same for both halves of each group: Σ_j sibling[j] lacking[i + j].

    From a group of g elements at most g − 1 can come beside the one that is asked for, so no larger i is needed.
    """
    entries, groups, rows = halves.shape
    lacking = lacking[:, : groups // 2]  # without a group that was there to make their number even
    siblings = halves.view(entries, 2, groups // 2, rows).flip(1)
    needed = min(lacking.shape[0], max(1, entries - 1))
    out = lacking.new_zeros(needed, 2, groups // 2, rows)
    for j in range(min(entries, lacking.shape[0])):
        held = min(needed, lacking.shape[0] - j)
        out[:held].addcmul_(siblings[j], lacking[j : j + held].unsqueeze(1))
    return out.view(needed, groups, rows)
