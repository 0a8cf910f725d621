"""Every pair of samples once, tile by tile: no n×n matrix exists, and one product serves every measure that listens.

Rows stand in class order, cut into blocks that end where classes end (`losses.backends.class_layout`). So a tile is of
one of three kinds: pairs of one class, pairs of two classes only, or, where a block holds several small classes
against itself, both. Cosine is symmetric: tiles above the diagonal stand for both of their sides.
"""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, Self

import torch
from torch import Tensor

from sincere.geometry.directions import Directions
from sincere.losses.backends.class_layout import Block
from sincere.nearest.precision import full_precision


@dataclass(frozen=True)
class Tile:
    """Cosines of one block of rows with another, or with itself."""

    block: Block
    other: Block
    cosines: Tensor  # (block.size, other.size); the memory is used again by the next tile, so copy what must last
    scratch: Tensor  # of the same shape, free to write into

    @property
    def diagonal(self) -> bool:
        """Is it a block with itself? Then every pair is in it twice, and every sample meets itself."""
        return self.block is self.other

    @property
    def one_class(self) -> bool:
        """Does it hold pairs of one class only?"""
        return self.block.same_class(self.other) or (self.diagonal and len(self.block.edges) == 2)

    @property
    def two_classes(self) -> bool:
        """Does it hold pairs of two classes only, one on each side?"""
        return not self.diagonal and not self.one_class and len(self.block.edges) == len(self.other.edges) == 2


class Listener(Protocol):
    """Anything that adds up something over all tiles."""

    def add(self, tile: Tile) -> None:
        """Add up one tile; its cosines must not be changed."""

    def fresh(self) -> Self:
        """Another one of the same kind that has added up nothing yet."""

    def join(self, other: Self) -> None:
        """Add what another one of the same kind has added up."""


def tiles(rows: Directions, *, within_only: bool = False, part: int = 0, parts: int = 1) -> Iterator[Tile]:
    """Every tile with a pair in it, or one of several parts of them, alike in size.

    With `within_only` those that hold a pair of one class. A cosine may exceed 1 by rounding.
    """
    blocks = rows.layout.blocks
    largest = max((block.size for block in blocks), default=0)
    memory = rows.rows.new_empty(2, largest * largest)
    number = 0
    for place, block in enumerate(blocks):
        for other in blocks[place:]:
            if within_only and other is not block and not block.same_class(other):
                break  # pieces of one class stand side by side
            number += 1
            if number % parts != part:
                continue
            cosines, scratch = memory[:, : block.size * other.size].view(2, block.size, other.size)
            torch.mm(rows.rows[block.rows], rows.rows[other.rows].T, out=cosines)
            yield Tile(block, other, cosines, scratch)


# TF32 is one setting for all threads, and each thread of `_hear` puts back what it found. Off from here on, it is found
# off by all of them; otherwise the last to end could leave it off for good.
@full_precision()
def listen(rows: Directions, listeners: Sequence[Listener], *, within_only: bool = False) -> None:
    """Show every tile to every listener.

    On a CPU each of torch's threads takes tiles of its own. A tile is too small to be shared: threads that wait for
    each other after every operation on it are slower than one alone as soon as anything else runs on the machine.
    """
    threads = torch.get_num_threads() if rows.rows.device.type == "cpu" else 1
    if threads == 1:
        _hear(rows, listeners, within_only, 0, 1)
        return
    crews = [[listener.fresh() for listener in listeners] for _ in range(threads)]
    with _one_thread_each(), ThreadPoolExecutor(threads) as pool:
        work = [pool.submit(_hear, rows, crew, within_only, part, threads) for part, crew in enumerate(crews)]
        for one in work:
            one.result()
    for crew in crews:  # in their order, so that sums come out the same every time
        for listener, heard in zip(listeners, crew, strict=True):
            listener.join(heard)


def _hear(rows: Directions, listeners: Sequence[Listener], within_only: bool, part: int, parts: int) -> None:
    with full_precision():  # autocast and gradients are switched off for each thread by itself
        for tile in tiles(rows, within_only=within_only, part=part, parts=parts):
            for listener in listeners:
                listener.add(tile)


@contextmanager
def _one_thread_each() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def same_class(rows: Directions, tile: Tile) -> Tensor:
    """Which cells of a diagonal tile are pairs of one class, both ways and without the samples themselves."""
    classes = rows.layout.classes[tile.block.rows]
    same = classes.unsqueeze(1) == classes
    return same.fill_diagonal_(False)
