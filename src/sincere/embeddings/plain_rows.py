"""Numbers that callers have as tensors, arrays or lists → float32 rows and arrays on the CPU."""

import torch
from torch import Tensor

from sincere.checks import check_finite
from sincere.data.conversion import Array, plain_array
from sincere.embeddings.arrays import writable
from sincere.errors import InputError

NUMBERS = "biuf"  # NumPy's kinds


def finite_rows(name: str, values: object) -> Tensor:
    """Numbers of shape (n, d), none of them NaN or infinite."""
    given = plain_array(name, values)
    if given.ndim != 2 or given.dtype.kind not in NUMBERS or not given.size:
        hint = " Of several views (b, v, d) pass one, [:, 0]." if given.ndim == 3 else ""
        raise InputError(f"{name} must be numbers of shape (n, d): got {given.dtype} of shape {given.shape}.{hint}")
    rows = torch.from_numpy(writable(given.astype("float32")))
    check_finite(name, rows)
    return rows


def shaped_numbers(name: str, values: object, wanted: str, shape: tuple[int | None, ...], advice: str = "") -> Array:
    """Numbers of this shape (None: of any size there); `wanted` says in words what they must be."""
    given = plain_array(name, values)
    fits = given.ndim == len(shape) and all(size in (None, own) for size, own in zip(shape, given.shape, strict=True))
    if not fits or given.dtype.kind not in NUMBERS:
        raise InputError(f"{name} must hold {wanted}: got {given.dtype} of shape {given.shape}.{advice}")
    return given
