"""torch's defaults for new tensors, as this library takes them for granted."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock

import torch

_lock = Lock()
_dtypes_before: list[torch.dtype] = []  # what the program had set, once for each caller that is inside


@contextmanager
def usual_defaults() -> Iterator[None]:
    """New tensors on the CPU and in float32 while this lasts, whatever `torch.set_default_device` and
    `set_default_dtype` said: what belongs on a GPU is put there by name. Also a decorator, `@usual_defaults()`, for
    functions that return when they are done: of a generator it would cover no more than the call.

    >>> torch.set_default_dtype(torch.float64)
    >>> with usual_defaults():
    ...     torch.zeros(1).dtype
    torch.float32
    >>> torch.zeros(1).dtype
    torch.float64
    >>> torch.set_default_dtype(torch.float32)
    """
    with _lock:  # torch has one default dtype for all threads, and the last of them to leave puts it back
        _dtypes_before.append(_dtypes_before[0] if _dtypes_before else torch.get_default_dtype())
        torch.set_default_dtype(torch.float32)
    try:
        # Where it is the CPU already, the context would only cost time in every call of torch.
        with nullcontext() if torch.get_default_device().type == "cpu" else torch.device("cpu"):
            yield
    finally:
        with _lock:
            before = _dtypes_before.pop()
            if not _dtypes_before:
                torch.set_default_dtype(before)


@contextmanager
def gradients_on() -> Iterator[None]:
    """For what trains, whatever it is called within: `torch.no_grad()` and `inference_mode()` of a caller's own.

    >>> with torch.inference_mode(), gradients_on():
    ...     (torch.ones(1, requires_grad=True) * 2).requires_grad
    True
    """
    with torch.inference_mode(False), torch.enable_grad():
        yield
