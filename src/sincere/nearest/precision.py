"""Full float32 in products, whatever the training loop allowed for speed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sincere.losses.tf32 import without_tf32


@contextmanager
def full_precision() -> Iterator[None]:
    """Products of float32 in float32 while this lasts, and no graph: TF32 keeps ten bits, and neighbours change places.

    Also a decorator: `@full_precision()`.
    """
    with without_tf32(), torch.autocast("cuda", enabled=False), torch.autocast("cpu", enabled=False), torch.no_grad():
        yield
