"""Initial weights from an explicit generator."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

ONE_AT_A_TIME = RLock()  # torch has one global generator for all threads, and whoever seeds it needs it for a while


@contextmanager
def seeded(generator: torch.Generator | None) -> Iterator[None]:
    """Inside, weights made on the CPU follow from the generator; afterwards torch's global one is as it was before.

    >>> from torch import nn
    >>> def layer():
    ...     with seeded(torch.Generator().manual_seed(0)):
    ...         return nn.Linear(2, 2)
    >>> torch.equal(layer().weight, layer().weight)
    True

    PyTorch's layers, and other people's models, know the global generator alone. With None it is used as it stands.
    Threads wait for one another here.
    """
    if generator is None:
        yield
        return
    seed = int(torch.randint(2**62, (), generator=generator, device=generator.device))
    with ONE_AT_A_TIME, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
