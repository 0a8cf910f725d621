"""Batches as torch's DataLoader takes them: every pass through them is the next epoch."""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from torch import Tensor

from sincere.checks import is_integral
from sincere.errors import OptionError


class EpochAfterEpoch(ABC):
    """What makes batches a `batch_sampler`: `DataLoader(data, batch_sampler=batches)`.

    epoch: the one that the next pass deals, 0 at first; each pass that begins counts it up. Processes that begin as
    many passes agree on it, and so do those that call `set_epoch` before each, as for torch's DistributedSampler.
    """

    epoch = 0

    @abstractmethod
    def batches(self, epoch: int) -> Iterator[Tensor]:
        """The batches of an epoch."""

    def set_epoch(self, epoch: int) -> None:
        """Let the next pass deal this epoch: to resume, or to be sure that all processes deal the same one."""
        if not is_integral(epoch) or epoch < 0:
            raise OptionError(f"epoch must be a whole number of at least 0: got {epoch!r}.")
        self.epoch = int(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        """This rank's share of every batch of the next epoch, as lists of indices.

        A pass begins with its first batch, not before: a DataLoader with workers makes two iterators and uses one.
        """
        now, self.epoch = self.epoch, self.epoch + 1
        for batch in self.batches(now):
            yield batch.tolist()
