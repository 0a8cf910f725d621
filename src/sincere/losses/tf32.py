"""TF32, which a GPU may use for float32 products: ten bits in place of 23."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def allows_tf32() -> bool:
    """Torch's own setting, by the name that knows it however it was made: `torch.get_float32_matmul_precision` raises
    where it was made by this one, and does not see that `without_tf32` has suspended it."""
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


@contextmanager
def without_tf32() -> Iterator[None]:
    """All digits of every product while this lasts."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before
