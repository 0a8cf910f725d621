"""The batches of an epoch: dealt out on the CPU, moved to the device in one copy."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from sincere.data import BalancedBatches, LabelledData
from sincere.data.batches import Batches, ClassBatches, ShuffledBatches
from sincere.errors import OptionError
from sincere.train.config import BatchesConfig


@dataclass(frozen=True, eq=False)
class EpochPlan:
    """All batches of an epoch, over all processes."""

    epoch: int
    indices: Tensor  # of all batches, one after another, on the device
    before: Tensor  # how often each of them came before, on the device
    starts: tuple[int, ...]  # where each batch starts, and where the last one ends
    order: np.ndarray[tuple[int], np.dtype[np.int64]]  # the labels of `indices`, on the CPU
    classes: int

    def __len__(self) -> int:
        return len(self.starts) - 1

    def batch(self, place: int) -> Tensor:
        """Indices of a batch, on the device."""
        return self.indices[self.starts[place] : self.starts[place + 1]]

    def times_before(self, place: int) -> Tensor:
        """How often each sample of a batch came before: in every epoch once, unless some are left out or repeated."""
        return self.before[self.starts[place] : self.starts[place + 1]]

    def size(self, place: int) -> int:
        return self.starts[place + 1] - self.starts[place]

    def class_counts(self, first: int, last: int) -> Iterator[tuple[int, ...]]:
        """Samples of each class in the batches from `first` up to `last`."""
        for place in range(first, last):
            labels = self.order[self.starts[place] : self.starts[place + 1]]
            yield tuple(np.bincount(labels, minlength=self.classes).tolist())


class Planner:
    """Deals out epochs. The same on every process: each then takes its share of every batch."""

    def __init__(
        self, config: BatchesConfig, data: LabelledData, *, seed: int, processes: int, epochs: int = 1
    ) -> None:
        self.labels = data.labels.cpu()
        self.classes, self.device = len(data.class_names), data.inputs.device
        self.dealer = _dealer(config, data, self.labels, seed)
        self.processes = processes
        self.repeats = config.sampler == "balanced"
        self.leaves_out = self.repeats or (config.sampler == "shuffled" and config.drop_last)
        self._came, self._counted = torch.zeros(len(data), dtype=torch.int64), 0  # in the epochs before `_counted`
        if self.dealer.smallest < processes:
            # Sizes of batches by class differ a little between epochs. What cannot be shared out in one of them is
            # refused here, before a run begins, and not in the middle of it.
            for epoch in range(epochs):
                self.plan(epoch)

    @property
    def notes(self) -> tuple[str, ...]:
        return self.dealer.notes

    def __len__(self) -> int:
        return len(self.dealer)

    def plan(self, epoch: int) -> EpochPlan:
        """The batches of an epoch."""
        batches = list(self.dealer.batches(epoch))
        smallest = min(map(len, batches))
        if smallest < self.processes:
            raise OptionError(
                f"every process needs a sample of every batch: the smallest batch of epoch {epoch} has {smallest}, "
                f"and there are {self.processes} processes. Use larger batches, or leave out an incomplete last one "
                "(batches.drop_last)."
            )
        indices = torch.cat(batches)
        starts = (0, *np.cumsum([len(batch) for batch in batches]).tolist())
        before = self._came_before(epoch)[indices]
        both = torch.stack([indices, before + _times_in(indices) if self.repeats else before])
        if self.device.type == "cuda":
            both = both.pin_memory()
        moved = both.to(self.device, non_blocking=True)
        return EpochPlan(epoch, moved[0], moved[1], starts, self.labels[indices].numpy(), self.classes)

    def _came_before(self, epoch: int) -> Tensor:
        """How often each sample came in the epochs before this one, (n,).

        It follows from the seed, so a run that resumes has it from the same epochs, dealt out once more.
        """
        if not self.leaves_out:
            return torch.full_like(self._came, epoch)
        if epoch < self._counted:
            self._came, self._counted = torch.zeros_like(self._came), 0
        for earlier in range(self._counted, epoch):
            self._came += torch.bincount(torch.cat(list(self.dealer.batches(earlier))), minlength=len(self._came))
        self._counted = epoch
        return self._came


def _times_in(indices: Tensor) -> Tensor:
    """How often each of these indices came among those before it."""
    ordered, places = indices.sort(stable=True)
    times = torch.empty_like(indices)
    times[places] = torch.arange(len(indices)) - torch.searchsorted(ordered, ordered)
    return times


def _dealer(config: BatchesConfig, data: LabelledData, labels: Tensor, seed: int) -> Batches:
    if config.sampler == "shuffled":
        return ShuffledBatches(len(data), batch_size=config.size, seed=seed, drop_last=config.drop_last)
    by_class = ClassBatches if config.sampler == "classes" else BalancedBatches
    return by_class(labels, batch_size=config.size, seed=seed, class_names=data.class_names)
