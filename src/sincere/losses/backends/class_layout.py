"""Rows in class order, cut into blocks that end where classes end, and classes gathered by size."""

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import torch
from torch import Tensor

# 512² logits are 1 MiB in float32: two tiles fit a core's cache, and a product of this size runs at full speed.
BLOCK = 512
# Logits of positives held at once.
LOGITS_PER_GROUP = 1 << 18
# A GPU has the memory, and each of its operations takes some microseconds to start, however small it is.
TIMES_LARGER_ON_GPU = 8


@dataclass(frozen=True)
class Block:
    """Neighbours in class order: whole classes, or a piece of one class that is too large for a block."""

    start: int
    stop: int
    edges: list[int]  # where its classes begin and end, counted from `start`
    piece_of: int | None  # the class, if this is a piece of one

    @property
    def rows(self) -> slice:
        return slice(self.start, self.stop)

    @property
    def size(self) -> int:
        return self.stop - self.start

    def same_class(self, other: "Block") -> bool:
        """Are two blocks pieces of one class? Then their tile holds no negative."""
        return self.piece_of is not None and self.piece_of == other.piece_of


@dataclass(frozen=True)
class ClassLayout:
    """Where every row stands when rows of a class stand together."""

    order: Tensor  # the batch's rows in class order
    classes: Tensor  # 0, 1, 2, … of each ordered row
    starts: Tensor  # where each class begins, and
    sizes: Tensor  # how many rows it has
    blocks: list[Block]

    @property
    def row_sizes(self) -> Tensor:
        """For each ordered row the size of its class."""
        return self.sizes[self.classes]


def layout_of(labels: Tensor) -> ClassLayout:
    """Sort by class and cut where classes end."""
    ordered, order = labels.sort(stable=True)
    _, classes, sizes = torch.unique_consecutive(ordered, return_inverse=True, return_counts=True)
    ends = sizes.cumsum(0)
    largest = BLOCK if labels.device.type == "cpu" else BLOCK * TIMES_LARGER_ON_GPU
    return ClassLayout(order, classes, ends - sizes, sizes, list(_cut([0, *ends.tolist()], largest)))


def _cut(boundaries: list[int], largest: int) -> Iterator[Block]:
    """Blocks of at most `largest` rows between class boundaries; a larger class is cut into even pieces."""
    at = 0
    while at + 1 < len(boundaries):
        start = boundaries[at]
        end = bisect_right(boundaries, start + largest) - 1
        if end > at:
            yield Block(start, boundaries[end], [edge - start for edge in boundaries[at : end + 1]], None)
            at = end
            continue
        size = boundaries[at + 1] - start
        pieces = ceil(size / largest)
        cuts = [start + piece * size // pieces for piece in range(pieces + 1)]
        for left, right in pairwise(cuts):
            yield Block(left, right, [0, right - left], at)
        at += 1


@dataclass(frozen=True)
class ClassGroup:
    """Classes of similar size side by side: rows (c, r) against members (c, L), padded where a class is smaller."""

    rows: Tensor  # (c, r) positions in class order
    members: Tensor  # (c, L)
    positive: Tensor  # (c, r, L): real rows, real members, not the same
    real: Tensor  # (c, r): real rows


def class_groups(layout: ClassLayout) -> Iterator[ClassGroup]:
    """Every ordered pair of positives once, in groups of bounded size; a class of one row has none."""
    on_gpu = layout.sizes.device.type != "cpu"
    budget = LOGITS_PER_GROUP * TIMES_LARGER_ON_GPU**2 if on_gpu else LOGITS_PER_GROUP
    doubling = torch.ceil(torch.log2(layout.sizes.double())).long()
    for power in sorted(set(doubling.tolist())):
        if power == 0:
            continue
        chosen = (doubling == power).nonzero().squeeze(1)
        length = int(layout.sizes[chosen].max())
        together = max(1, budget // (length * length))
        height = max(1, min(length, budget // length))
        for classes in chosen.split(together):
            for first in range(0, length, height):
                yield _group(layout, classes, length, first, min(first + height, length))


def _group(layout: ClassLayout, classes: Tensor, length: int, first: int, last: int) -> ClassGroup:
    starts, sizes = layout.starts[classes].unsqueeze(1), layout.sizes[classes].unsqueeze(1)
    place = torch.arange(length, device=starts.device)
    inside = place < sizes
    members = starts + place.minimum(sizes - 1)
    rows, real = members[:, first:last], inside[:, first:last]
    positive = real.unsqueeze(2) & inside.unsqueeze(1) & (place[first:last].unsqueeze(1) != place)
    return ClassGroup(rows, members, positive, real)
