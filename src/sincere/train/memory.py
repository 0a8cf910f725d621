"""Contrasts beyond the batch: a momentum encoder's keys, and a queue of past ones."""

import copy

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import get_ema_multi_avg_fn

from sincere.errors import OptionError
from sincere.losses.queue import LabelQueue
from sincere.train.config import MemoryConfig
from sincere.train.network import Network


class Memory(nn.Module):
    """What the loss is contrasted with besides the batch, and how it is kept up to date.

    Each process keeps a queue of its own samples, size / processes long; the loss gathers the queues of all.
    """

    def __init__(self, config: MemoryConfig, network: Network, *, dim: int, processes: int) -> None:
        super().__init__()
        if config.queue % processes:
            raise OptionError(
                f"memory.queue must be a multiple of the {processes} processes, which share it: got {config.queue}."
            )
        self.queue = LabelQueue(config.queue // processes, dim) if config.queue else None
        self.momentum = config.momentum
        self.follower: Network | None = None
        if config.momentum is not None:
            self.follower = copy.deepcopy(network).requires_grad_(False)
            self._averaged = get_ema_multi_avg_fn(config.momentum)  # type: ignore[no-untyped-call]

    def anchors(self, views: Tensor) -> Tensor:
        """The views that go through the encoder: with a momentum encoder the first of each sample."""
        return views if self.follower is None else views[:, :1]

    @torch.no_grad()
    def keys(self, views: Tensor) -> Tensor | None:
        """The momentum encoder's embeddings of the other views, (b, v − 1, d)."""
        if self.follower is None:
            return None
        keys: Tensor = self.follower(views[:, 1:])
        return keys.float()

    def contrasts(self, keys: Tensor | None, labels: Tensor) -> tuple[Tensor, Tensor] | tuple[()]:
        """Embeddings and labels to contrast with: the keys, then the queue."""
        found = []
        if keys is not None:
            found.append((keys.flatten(0, 1), labels.repeat_interleave(keys.shape[1])))
        if self.queue is not None:
            found.append(self.queue.contrasts())
        if not found:
            return ()
        return torch.cat([rows for rows, _ in found]), torch.cat([classes for _, classes in found])

    @torch.no_grad()
    def remember(self, keys: Tensor | None, outputs: Tensor, labels: Tensor) -> None:
        """After the loss: the keys, or without a momentum encoder the batch's own embeddings, join the queue."""
        if self.queue is not None:
            self.queue.enqueue(outputs.float() if keys is None else keys, labels)

    @torch.no_grad()
    def follow(self, network: Network) -> None:
        """After the optimizer: the momentum encoder's weights move towards the encoder's."""
        if self.follower is not None:
            self._averaged(list(self.follower.parameters()), list(network.parameters()), 0)
