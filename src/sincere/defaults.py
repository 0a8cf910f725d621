"""torch's defaults for new tensors, as this library takes them for granted."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import torch


@contextmanager
def usual_defaults() -> Iterator[None]:
    """New tensors on the CPU and in float32 while this lasts, whatever `torch.set_default_device` and
    `set_default_dtype` said: what belongs on a GPU is put there by name. Also a decorator, `@usual_defaults()`.

    >>> torch.set_default_dtype(torch.float64)
    >>> with usual_defaults():
    ...     torch.zeros(1).dtype
    torch.float32
    >>> torch.zeros(1).dtype
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        # Where it is the CPU already, the context would only cost time in every call of torch.
        with nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"):
            yield
    finally:
        torch.set_default_dtype(dtype)
