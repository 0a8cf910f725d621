"""Batches in which every class comes as often as any other, however many samples it has."""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sincere.checks import is_integral
from sincere.data.batches import Numbers, check_sizes, permutation, share_of
from sincere.data.conversion import class_numbers
from sincere.data.epochs import EpochAfterEpoch
from sincere.data.samples import dealt_unlabelled, listed_names, names_in_notes
from sincere.errors import InputError, OptionError
from sincere.seeds import seeded_generator
from sincere.tables import amount


class BalancedBatches(EpochAfterEpoch):
    """Batches of some classes with equally many samples of each; rare classes come again and again.

    An epoch has as many batches as plain shuffling would have, so it costs the same and leaves out most of a large
    class. What it leaves out comes in the next epochs: no sample of a class comes again before all others of its class
    have come, also from one epoch to the next. (From classes with fewer than twice `per_class` samples each batch draws
    anew; samples of those with fewer than `per_class` are repeated within a batch.) Every class is in as many batches
    as any other, give or take one an epoch.

    It is a `batch_sampler` like :class:`ClassBatches`.

    Args:
        labels: classes (n,), whole numbers: a tensor, an array or a list. −1 is dealt out like any other, with a note.
        batch_size: samples of a batch at most, over all ranks; not more than there are in all.
        per_class: samples of each class in a batch; as many as fit all classes unless given, and two at least.
        rank, world_size: of this process. Each rank takes an even share of every batch.
        class_names: to name classes in notes.

    >>> batches = BalancedBatches([0] * 90 + [1] * 10, batch_size=20)
    >>> [(batch < 90).sum().item() for batch in batches.batches(epoch=0)]
    [10, 10, 10, 10, 10]
    """

    # In the code, a class has a turn in each batch that it is in. Its samples are dealt in cycles: each is a shuffled
    # order of all of them, and a turn takes the next `per_class`, where need be from two cycles.

    def __init__(
        self,
        labels: Tensor | npt.ArrayLike,
        *,
        batch_size: int,
        per_class: int | None = None,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        class_names: Sequence[str] | None = None,
    ) -> None:
        check_sizes(batch_size, rank, world_size)
        self.seed, self.rank, self.world_size = seed, rank, world_size
        found, numbers, counts = np.unique(class_numbers(labels), return_inverse=True, return_counts=True)
        if len(found) < 2:
            raise InputError(f"balanced batches need at least two classes: got {len(found)}.")
        self._counts, self._members = counts, np.split(np.argsort(numbers, kind="stable"), np.cumsum(counts)[:-1])
        given = _checked(per_class, batch_size)
        room = max(min(batch_size, len(numbers)), 2 * given)  # a batch of more than all samples would be of copies
        self.per_class = max(given, room // len(counts)) if per_class is None else given
        self.classes_per_batch = min(len(counts), room // self.per_class)
        self.largest = self.smallest = self.per_class * self.classes_per_batch
        if self.smallest < world_size:
            raise OptionError(
                f"every rank needs a sample of every batch: batches have {self.smallest}, and there are {world_size} "
                "ranks. Raise per_class or batch_size."
            )
        self._batches = max(1, round(len(numbers) / self.largest))
        self._orders: dict[int, tuple[int, Numbers]] = {}  # by class: the cycle asked for last, and its order
        told = self._told(names_in_notes(found.tolist(), class_names), batch_size)
        self.notes = (*dealt_unlabelled(found.tolist(), counts.tolist()), *told)

    def __len__(self) -> int:
        return self._batches

    def batches(self, epoch: int) -> Iterator[Tensor]:
        """This rank's share of every batch of an epoch."""
        generator = seeded_generator(self.seed, epoch)
        taken = self._turns_before(epoch)
        turns = np.array(self._turns(epoch, generator)).reshape(self._batches, self.classes_per_batch)
        for classes in turns.tolist():
            drawn = []
            for one in classes:
                drawn.append(self._draw(one, int(taken[one]), generator))
                taken[one] += 1
            batch = np.concatenate(drawn)[permutation(self.largest, generator)]
            yield share_of(torch.from_numpy(batch), self.rank, self.world_size)

    def _extra(self) -> int:
        """How many classes have a turn more than the others in an epoch."""
        return (self._batches * self.classes_per_batch) % len(self._counts)

    def _turns_before(self, epoch: int) -> Numbers:
        """How many turns each class had in the epochs before; those that do not divide evenly go round the classes."""
        classes = len(self._counts)
        even = (self._batches * self.classes_per_batch) // classes
        rounds, rest = divmod(epoch * self._extra(), classes)
        before: Numbers = np.full(classes, epoch * even + rounds)
        before[self._round()[:rest]] += 1
        return before

    def _round(self) -> Numbers:
        """The order in which classes take the turns that do not divide evenly."""
        return permutation(len(self._counts), seeded_generator(self.seed, "round"))

    def _turns(self, epoch: int, generator: torch.Generator) -> list[int]:
        """The class of every turn of an epoch, batch after batch, none twice in a batch."""
        classes, size = len(self._counts), self.classes_per_batch
        places = np.arange(epoch * self._extra(), (epoch + 1) * self._extra()) % classes
        extra = self._round()[places]
        turns: list[int] = extra[permutation(len(extra), generator)].tolist()
        while len(turns) < self._batches * size:
            begun = turns[len(turns) - len(turns) % size :]
            turns += _continued(permutation(classes, generator).tolist(), begun, (size - len(begun)) % size)
        return turns

    def _draw(self, one: int, turn: int, generator: torch.Generator) -> Numbers:
        """The samples of class `one` for its turn number `turn`."""
        members, count = self._members[one], self.per_class
        if len(members) < 2 * count:
            rounds = -(-count // len(members))
            drawn = np.concatenate([permutation(len(members), generator) for _ in range(rounds)])
            again: Numbers = members[drawn[:count]]
            return again
        cycle, place = divmod(turn * count, len(members))
        order = self._order(one, cycle)[place:]
        if len(order) < count:
            order = np.concatenate([order, self._order(one, cycle + 1)])
        new: Numbers = members[order[:count]]
        return new

    def _order(self, one: int, cycle: int) -> Numbers:
        """The order of a large class in a cycle; kept, as many turns need it and large classes take long to shuffle."""
        if one not in self._orders or self._orders[one][0] != cycle:
            self._orders[one] = (cycle, self._new_order(one, cycle))
        return self._orders[one][1]

    def _new_order(self, one: int, cycle: int) -> Numbers:
        """A shuffled order, by which a turn that began in the cycle before and ends in this one has no sample twice."""
        size, count = len(self._members[one]), self.per_class
        order = permutation(size, seeded_generator(self.seed, one, cycle))
        begun = (cycle * size) % count  # samples of that turn which the cycle before has dealt
        if not begun:
            return order
        before = permutation(size, seeded_generator(self.seed, one, cycle - 1))[size - begun :]
        kept = ((cycle + 1) * size) % count
        head = order[: size - kept]  # the rest stays in place, as the next cycle looks there for what it must avoid
        chosen = np.flatnonzero(~np.isin(head, before))[: count - begun]
        return np.concatenate([head[chosen], np.delete(head, chosen), order[size - kept :]])

    def _told(self, names: Sequence[str], batch_size: int) -> Iterator[str]:
        if self.largest != batch_size:
            yield (
                f"batches hold {self.largest} samples rather than {batch_size}: {self.per_class} of each of "
                f"{amount(self.classes_per_batch, 'class', 'classes')}."
            )
        few = [name for name, count in zip(names, self._counts, strict=True) if count < self.per_class]
        if few:
            have = f"{amount(len(few), 'class', 'classes')} {'has' if len(few) == 1 else 'have'}"
            yield (
                f"{have} fewer than {self.per_class} samples, which are repeated within a batch, where only random "
                f"views make them differ: {listed_names(few, 8)}."
            )


def _continued(order: list[int], begun: list[int], missing: int) -> list[int]:
    """An order of all classes whose first `missing` ones are not in the batch that was begun."""
    head = [one for one in order if one not in begun][:missing]
    return head + [one for one in order if one not in head]


def _checked(per_class: int | None, batch_size: int) -> int:
    """`per_class`, or the least that it can be."""
    if per_class is None:
        return 2
    if not is_integral(per_class) or per_class < 2 or 2 * per_class > batch_size:
        raise OptionError(
            f"per_class must be a whole number from 2 up to half a batch, {batch_size // 2}: got {per_class!r}. A "
            "batch holds two classes or more."
        )
    return int(per_class)
