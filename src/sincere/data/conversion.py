"""What callers have as numbers (tensors, arrays, lists) → NumPy's arrays."""

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sincere.errors import InputError

Array = npt.NDArray[Any]


def array_of_tensor(values: Tensor) -> Array:
    """A tensor as an array, from any device and without its graph."""
    plain = values.detach().cpu()
    return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()  # NumPy has no bfloat16


def plain_array(name: str, values: object) -> Array:
    """Anything that holds numbers, or texts, as an array; `name` says in messages what it is."""
    if isinstance(values, Tensor):
        return array_of_tensor(values)
    check_unmasked(name, values)
    try:
        return np.asarray(values)
    except (ValueError, RuntimeError, TypeError) as error:  # also of tensors with a graph, or on a GPU, in a list
        raise InputError(f"{name} must be an array, or lists of one length: {error}") from error


def check_unmasked(name: str, values: object) -> None:
    """Refuse masked values, under which NumPy keeps others that mean nothing."""
    if np.ma.is_masked(values):
        raise InputError(f"{name} must have all their values: some are masked. Leave those samples out.")


def as_indices(given: object, samples: int) -> Tensor:
    """Places of samples, int64 (k,) on the CPU, from a tensor, an array or a list of them, or from a mask."""
    found = plain_array("indices", given)
    if found.ndim != 1 or (found.size and found.dtype.kind not in "biu"):
        raise InputError(
            f"indices must be whole numbers, (k,), or a mask, ({samples},): got {found.dtype} of shape {found.shape}."
        )
    if found.dtype.kind == "b":
        if len(found) != samples:
            raise InputError(f"a mask must hold one value a sample, ({samples},): got {found.shape}.")
        return torch.from_numpy(found.nonzero()[0])
    if found.size and not -samples <= int(found.min()) <= int(found.max()) < samples:
        raise InputError(
            f"indices must lie between 0 and {samples - 1}, or from −{samples} to −1 as seen from the end: "
            f"got {found.min()} to {found.max()}."
        )
    return torch.from_numpy(found.astype(np.int64))


def class_numbers(labels: Tensor | npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Class labels (n,) as whole numbers."""
    numbers = plain_array("labels", labels)
    if numbers.ndim != 1 or numbers.dtype.kind not in "biu":
        came = f"{labels.dtype if isinstance(labels, Tensor) else numbers.dtype} {numbers.shape}"
        number = " Number names: np.unique(labels, return_inverse=True)[1]." if numbers.dtype.kind in "OSU" else ""
        raise InputError(f"labels must be whole numbers, one per sample: got {came}.{number}")
    return numbers
