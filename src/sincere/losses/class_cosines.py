"""Are samples of one class more alike than others? In time and memory linear in the batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

SHUFFLES = 19  # labels that have nothing to do with the rows beat so many with a chance of one in twenty
CLEAR = 0.1  # a larger difference of the means needs no test


@dataclass(frozen=True)
class ClassCosines:
    """Mean cosines of the pairs of a batch."""

    within: float  # of two rows of one class
    between: float  # of two classes
    related: bool  # to the labels, or might they as well stand in any other order?


def class_cosines(unit: Tensor, labels: Tensor) -> ClassCosines | None:
    """Of unit rows (n, d) and their classes (n,); None where there are no pairs of both kinds."""
    _, members, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    n, same = float(len(unit)), float(counts.square().sum())
    if same in (n, n * n):  # every row alone in its class, or all in one
        return None
    unit = unit.double()
    length, rows = float(unit.sum(dim=0).square().sum()), float(unit.square().sum())
    own = float(_own(unit, members, len(counts)))
    within, between = (own - rows) / (same - n), (length - own) / (n * n - same)
    return ClassCosines(within, between, within - between > CLEAR or _beats_shuffles(own, unit, members, len(counts)))


def _own(unit: Tensor, members: Tensor, classes: int) -> Tensor:
    """The cosines of all pairs of one class, each row with itself included, added up."""
    return unit.new_zeros(classes, unit.shape[1]).index_add_(0, members, unit).square().sum()


def _beats_shuffles(own: float, unit: Tensor, members: Tensor, classes: int) -> bool:
    """Is it more than with labels in any other order? A permutation test, by the same orders each time."""
    generator = torch.Generator("cpu").manual_seed(0)
    orders = (
        torch.randperm(len(members), generator=generator, device="cpu").to(members.device) for _ in range(SHUFFLES)
    )
    others = torch.stack([_own(unit, members[order], classes) for order in orders])
    return own > float(others.max())  # asked once: a GPU would wait at each
