"""Are samples of one class more alike than others? Answered in time and memory linear in the batch."""

from dataclasses import dataclass

import torch
from torch import Tensor

SHUFFLES = 19  # labels that have nothing to do with the rows beat this many shuffles with a chance of one in twenty
CLEAR = 0.1  # a larger difference of the means needs no test


@dataclass(frozen=True)
class ClassCosines:
    """Mean cosines of the pairs of a batch."""

    within: float  # of two rows of one class
    between: float  # of two rows of different classes
    related: bool  # are samples related to their labels, or would shuffled labels fit as well?


def class_cosines(unit: Tensor, labels: Tensor, *, views: int = 1) -> ClassCosines | None:
    """The cosines of unit rows (n, d) with classes (n,); None unless there are pairs within and between classes.

    Every `views` rows are one sample's. Those are alike whatever its label, so labels are judged by pairs of different
    samples; by views only where every sample is a class of its own.
    """
    _, members, counts = torch.unique(labels, return_inverse=True, return_counts=True)
    n, same = float(len(unit)), float(counts.square().sum())
    if same in (n, n * n):  # every row alone in its class, or all in one
        return None
    unit = unit.double()
    length, rows = float(unit.sum(dim=0).square().sum()), float(unit.square().sum())
    own = float(_own(unit, members, len(counts)))
    within, between = (own - rows) / (same - n), (length - own) / (n * n - same)
    if len(counts) * views == len(unit):
        views = 1
    samples = unit.view(-1, views, unit.shape[1]).sum(dim=1)
    across = (own - float(samples.square().sum())) / (same - n * views)
    related = across - between > CLEAR or _beats_shuffles(own, samples, members[::views], len(counts))
    return ClassCosines(within, between, related)


def _own(unit: Tensor, members: Tensor, classes: int) -> Tensor:
    """The cosines of all pairs of one class, each row with itself included, added up."""
    return unit.new_zeros(classes, unit.shape[1]).index_add_(0, members, unit).square().sum()


def _beats_shuffles(own: float, unit: Tensor, members: Tensor, classes: int) -> bool:
    """Is `own` more than with shuffled labels? A permutation test, with the same shuffles each time."""
    generator = torch.Generator("cpu").manual_seed(0)
    orders = (
        torch.randperm(len(members), generator=generator, device="cpu").to(members.device) for _ in range(SHUFFLES)
    )
    others = torch.stack([_own(unit, members[order], classes) for order in orders])
    return own > float(others.max())  # asked once: a GPU would wait at each
