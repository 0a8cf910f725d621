"""TF32, which a GPU may use for float32 products: ten bits in place of 23."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


def allows_tf32() -> bool:
    """Whether torch's setting allows TF32. It is read by the name that is valid however it was set:
    `torch.get_float32_matmul_precision` raises an error if it was set by this name, and does not see that
    `without_tf32` has suspended it."""
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


@contextmanager
def without_tf32() -> Iterator[None]:
    """A context in which every float32 product has all its digits."""
    matmul = torch.backends.cuda.matmul
    before = matmul.fp32_precision
    matmul.fp32_precision = "ieee"
    try:
        yield
    finally:
        matmul.fp32_precision = before
