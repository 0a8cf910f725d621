"""Batches for contrastive losses: every anchor has a positive and a negative."""

import heapq
import math
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sincere.checks import is_integral
from sincere.data.batch_limits import LEAST, SHORT, least_size, notes_on_classes
from sincere.data.conversion import class_numbers
from sincere.data.epochs import EpochAfterEpoch
from sincere.data.samples import dealt_unlabelled, listed, names_in_notes
from sincere.errors import InputError, OptionError
from sincere.seeds import seeded_generator

Numbers = npt.NDArray[np.int64]


class Batches(Protocol):
    """Deals out a data set in batches of indices. Its whole state is (seed, epoch, position).

    notes: what the user should know about these batches, in words.
    largest: samples of the largest batch, over all ranks; of `ClassBatches` give or take two.
    smallest: as many samples has every batch of every epoch, over all ranks, at least.
    """

    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def largest(self) -> int: ...
    @property
    def smallest(self) -> int: ...
    def __len__(self) -> int:
        """Batches in an epoch: the same number on every rank."""
        ...

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """This rank's share of every batch of an epoch, int64 indices on the CPU."""
        ...


class ShuffledBatches(EpochAfterEpoch):
    """Plain shuffling, the last incomplete batch dropped: the papers' recipes.

    With few samples per batch and class, anchors can be without a positive. Left over are different samples in
    every epoch; `drop_last=False` keeps them as a smaller last batch, a single one within the batch before it.
    A `batch_sampler` as :class:`ClassBatches` is one.
    """

    def __init__(
        self,
        samples: int,
        *,
        batch_size: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        drop_last: bool = True,
    ) -> None:
        check_sizes(batch_size, rank, world_size)
        if not is_integral(samples):
            raise OptionError(
                f"samples must be how many there are, a whole number: got {type(samples).__name__}. Pass len(labels); "
                "batches by class are ClassBatches."
            )
        if samples < max(world_size, 2):
            raise InputError(f"batches need at least {max(world_size, 2)} samples: got {samples}.")
        self.samples, self.batch_size, self.drop_last = samples, min(batch_size, samples), drop_last
        self.seed, self.rank, self.world_size = seed, rank, world_size
        full, rest = divmod(samples, self.batch_size)
        # A rank without a sample cannot take part in the collectives of a step, so too small a rest is dropped. A
        # single sample has nobody to be compared with, and batch normalisation refuses it: it joins the batch before.
        self._joined = int(not drop_last and rest == 1 == world_size)
        self._count = full + (not drop_last and rest >= world_size and not self._joined)
        notes = []
        if batch_size > samples:
            notes.append(f"the batch size is {samples} rather than {batch_size}: there are no more samples.")
        if dropped := samples - min(self._count * self.batch_size + self._joined, samples):
            notes.append(f"{dropped:,} of {samples:,} samples, others each time, are left out of an epoch's batches.")
        self.notes, self.largest = tuple(notes), self.batch_size + self._joined
        self.smallest = rest if self._count > full else self.batch_size

    def __len__(self) -> int:
        return self._count

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """This rank's share of every batch of an epoch."""
        order = torch.randperm(self.samples, generator=seeded_generator(self.seed, epoch))
        for place in range(self._count):
            first, last = place * self.batch_size, place == self._count - 1
            size = self.batch_size + (self._joined if last else 0)
            yield share_of(order[first : first + size], self.rank, self.world_size)


class ClassBatches(EpochAfterEpoch):
    """Batches that hold at least two classes, and at least two samples of each class; every sample comes once an epoch.

    The exception is a class with one sample in all: it cannot have company, comes once all the same, and is named in
    `notes`. Sizes are as even as they can be, at most `batch_size` give or take two. Where a small class cannot reach
    that many batches, there are fewer and larger ones, and `notes` says so: 900, 90 and 10 samples make 50 pairs of
    the smaller classes, so 50 batches at most.

    How: each class is cut into random pairs (one triple where it is odd). Every batch first gets two units of
    different classes, which works for K batches when Σ_c min(units of c, K) ≥ 2K; the others fill up at random.

    `DataLoader(data, batch_sampler=ClassBatches(labels, batch_size=128))` deals the next epoch with every pass;
    `set_epoch(n)` says which, and `batches(epoch)` gives one by its number.

    Args:
        labels: classes (n,), whole numbers: a tensor, an array or a list. −1 is dealt out like any other, with a note.
        batch_size: samples of a batch, over all ranks.
        rank, world_size: of this process. Each rank takes an even share of every batch, and a batch does not depend on
            the number of ranks, unless it could be too small for them: then there are fewer and larger ones.
        class_names: to name classes in notes.

    >>> batches = ClassBatches(torch.tensor([0] * 6 + [1] * 4), batch_size=5)
    >>> sorted(torch.cat(list(batches.batches(epoch=0))).tolist())
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
    """

    def __init__(
        self,
        labels: Tensor | npt.ArrayLike,
        *,
        batch_size: int,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        class_names: Sequence[str] | None = None,
    ) -> None:
        check_sizes(batch_size, rank, world_size)
        self.seed, self.rank, self.world_size = seed, rank, world_size
        found, numbers, counts = np.unique(class_numbers(labels), return_inverse=True, return_counts=True)
        names = names_in_notes(found.tolist(), class_names)
        self._numbers, self._units = numbers, _Units(counts)
        self._sizes = _batch_sizes(counts, batch_size, world_size)
        self.largest, self.smallest = int(max(self._sizes)), max(int(min(self._sizes)) - SHORT, LEAST)
        marked = dealt_unlabelled(found.tolist(), counts.tolist())
        possible = _most_batches(counts // 2)
        told = notes_on_classes(names, counts, batch_size, self._sizes, possible=possible, world_size=world_size)
        self.notes = (*marked, *told)

    def __len__(self) -> int:
        return len(self._sizes)

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """This rank's share of every batch of an epoch."""
        generator = seeded_generator(self.seed, epoch)
        shuffled = permutation(len(self._numbers), generator)
        by_class = shuffled[np.argsort(self._numbers[shuffled], kind="stable")]
        home = np.repeat(_homes(self._units, self._sizes, generator), self._units.size)
        # Shuffled once more, so that a rank's share is a random part of its batch.
        mixed = permutation(len(home), generator)
        order = by_class[mixed[np.argsort(home[mixed], kind="stable")]]
        for batch in np.split(order, np.cumsum(np.bincount(home))[:-1]):
            yield share_of(torch.from_numpy(batch), self.rank, self.world_size)


class _Units:
    """Each class cut into pairs, the first a triple where the class is odd; a class of one sample is one unit.

    Units follow one another as the classes do, so `np.repeat(…, size)` gives a value per sample sorted by class.
    """

    def __init__(self, counts: Numbers) -> None:
        units = np.maximum(counts // 2, 1)
        first = np.cumsum(units) - units
        self.of_class = np.repeat(np.arange(len(counts)), units)
        self.place = np.arange(len(self.of_class)) - first[self.of_class]
        self.size = np.full(len(self.of_class), 2)
        self.size[first] += counts % 2
        self.size[first[counts == 1]] = 1


def _homes(units: _Units, sizes: Numbers, generator: torch.Generator) -> Numbers:
    """The batch of each unit."""
    count = len(sizes)
    home = np.full(len(units.size), -1)
    able = np.flatnonzero((units.size > 1) & (units.place < count))
    able = able[permutation(len(able), generator)]
    # Pairs first: triples are what makes sizes odd, and are better placed with the sizes in view.
    chosen = able[np.argsort(units.size[able], kind="stable")[: 2 * count]]
    two = _two_classes_each(units.of_class[chosen], count, generator)
    home[chosen[two]] = np.arange(count)
    deficit = sizes - np.bincount(home[chosen], weights=units.size[chosen], minlength=count).astype(np.int64)
    rest = np.flatnonzero(home < 0)
    rest = rest[permutation(len(rest), generator)]
    for size in (3, 1):
        odd = rest[units.size[rest] == size]
        home[odd] = _place_odd(size, len(odd), deficit)
    pairs = rest[units.size[rest] == 2]
    home[pairs] = np.repeat(np.arange(count), _pair_counts(deficit, len(pairs)))
    return home


def _two_classes_each(classes: Numbers, count: int, generator: torch.Generator) -> Numbers:
    """Positions (2, count) into `classes`, each column of two different ones; no class occurs more than `count` times.

    Sorted by class and written into two rows, a class would have to occur more than `count` times to meet itself
    in a column. Random swaps in the second row then break up the neighbourhoods.
    """
    class_order = permutation(int(classes.max()) + 1, generator)
    rows = np.argsort(class_order[classes], kind="stable").reshape(2, count)
    rows = rows[:, permutation(count, generator)]
    top, bottom = classes[rows[0]].tolist(), classes[rows[1]].tolist()
    second = rows[1].tolist()
    for i, j in enumerate(permutation(count, generator).tolist()):
        if top[i] != bottom[j] and top[j] != bottom[i]:
            bottom[i], bottom[j] = bottom[j], bottom[i]
            second[i], second[j] = second[j], second[i]
    rows[1] = second
    return rows


def _place_odd(size: int, units: int, deficit: Numbers) -> list[int]:
    """Batches for units of 3 or 1, first where an odd number is missing, as pairs fill the rest. Lowers `deficit`."""

    def turn(missing: int, batch: int) -> tuple[bool, int, int]:
        return not (missing % 2 and missing >= size), -missing, batch

    homes = []
    heap = [turn(missing, batch) for batch, missing in enumerate(deficit.tolist())]
    heapq.heapify(heap)
    for _ in range(units):
        batch = heap[0][2]
        deficit[batch] -= size
        heapq.heapreplace(heap, turn(int(deficit[batch]), batch))
        homes.append(batch)
    return homes


def _pair_counts(deficit: Numbers, pairs: int) -> Numbers:
    """How many pairs each batch gets, so that all are dealt and what is missing or too much is even."""
    counts: Numbers = np.maximum(deficit, 0) // 2
    while gap := pairs - int(counts.sum()):
        excess = 2 * counts - deficit
        if gap > 0:
            counts[np.argsort(excess, kind="stable")[:gap]] += 1
        else:
            holding = np.flatnonzero(counts)
            counts[holding[np.argsort(-excess[holding], kind="stable")[:-gap]]] -= 1
    return counts


def _batch_sizes(counts: Numbers, batch_size: int, world_size: int) -> Numbers:
    """Sizes of the batches of an epoch: as many as the batch size asks for and classes and ranks allow."""
    samples = int(counts.sum())
    least, possible = least_size(world_size), _most_batches(counts // 2)
    if possible == 0 or samples < world_size:
        raise InputError(
            f"batches need two classes with at least two samples each, and one sample per rank ({world_size}): got "
            f"{len(counts)} classes with {listed(counts.tolist())} samples. Add data, name other classes, or use plain "
            "shuffling (ShuffledBatches, batches.sampler='shuffled')."
        )
    count = max(min(math.ceil(samples / batch_size), possible, samples // least), 1)
    pairs, more = divmod(samples // 2, count)
    sizes: Numbers = np.full(count, 2 * pairs)
    sizes[:more] += 2
    sizes[-1] += samples % 2
    if sizes.min() >= least and sizes.max() <= max(batch_size, math.ceil(samples / count)):
        return sizes  # even, as suits pairs
    sizes = np.full(count, samples // count)
    sizes[: samples % count] += 1
    return sizes


def _most_batches(units: Numbers) -> int:
    """The largest K with Σ_c min(units_c, K) ≥ 2K; the left side is concave, so bisection finds it."""
    low, high = 0, int(units.sum()) // 2
    while low < high:
        middle = (low + high + 1) // 2
        if int(np.minimum(units, middle).sum()) >= 2 * middle:
            low = middle
        else:
            high = middle - 1
    return low


def check_sizes(batch_size: int, rank: int, world_size: int) -> None:
    for name, size in (("batch_size", batch_size), ("rank", rank), ("world_size", world_size)):
        if not is_integral(size):
            raise OptionError(f"{name} must be a whole number: got {size!r}.")
    if batch_size < max(4, world_size):
        raise OptionError(
            f"batch_size must be at least {max(4, world_size)}, two samples of two classes and one per rank: "
            f"got {batch_size}."
        )
    if not 0 <= rank < world_size:
        raise OptionError(f"rank must lie between 0 and world_size − 1: got rank {rank} of {world_size}.")


def permutation(count: int, generator: torch.Generator) -> Numbers:
    order: Numbers = torch.randperm(count, generator=generator).numpy()
    return order


def share_of(batch: Tensor, rank: int, world_size: int) -> Tensor:
    """Rank's part of a global batch; parts differ by one sample at most."""
    return batch.tensor_split(world_size)[rank]
