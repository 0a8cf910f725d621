"""One seed, many streams: every random number of a run follows from the seed, a purpose and a place.

So a run that resumes needs no saved generator, and N processes can draw what one would have drawn.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_for(seed: int, purpose: str, *place: int) -> int:
    """A 63-bit seed for one purpose at one place; the same on every machine.

    >>> seed_for(0, "views", 3) == seed_for(0, "views", 3) != seed_for(0, "views", 4)
    True
    """
    text = "/".join(map(str, (seed, purpose, *place)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1


def seed_layers(device: torch.device, seed: int) -> None:
    """Seed the generators that layers draw from and that take no other: weights at the start, dropout at each step."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)


@contextmanager
def callers_generators_restored(device: torch.device) -> Iterator[None]:
    """Give the caller's global generators back as they were."""
    with torch.random.fork_rng([device] if device.type == "cuda" else []):
        yield
