"""CIFAR's batches are Python pickles. This reads them without letting them run anything.

A pickle is a program that may call any function it names. Here the only names it can utter are the three that numpy
wrote into these files, and each stands for an object of this module that can do nothing but remember what it was
given. Everything else that a pickle can hold (dictionaries, lists, strings, numbers) is data.
"""

import io
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

from sincere.errors import InputError


class _Bytes:
    """Stands for `numpy.dtype`; these files know one type, unsigned bytes."""

    __slots__ = ()

    def __call__(self, name: object, *_: object) -> "_Bytes":
        if name not in (b"u1", "u1"):
            raise pickle.UnpicklingError(f"an array of type {name!r}, where CIFAR has unsigned bytes")
        return self

    def __setstate__(self, state: object) -> None:
        """Byte order and alignment: nothing to remember for bytes."""


class _Array:
    """Stands for a `numpy.ndarray` that is being filled."""

    __slots__ = ("content", "shape")

    def __setstate__(self, state: object) -> None:
        match state:
            case (1, (int(rows), int(columns)), _Bytes(), False, bytes(content)) if len(content) == rows * columns:
                self.shape, self.content = (rows, columns), content
            case _:
                raise pickle.UnpicklingError("an array that is not a table of bytes, row by row")

    def values(self) -> npt.NDArray[np.uint8]:
        return np.frombuffer(self.content, np.uint8).reshape(self.shape)


class _NewArray:
    """Stands for numpy's `_reconstruct`, and for `numpy.ndarray` as its argument."""

    __slots__ = ()

    def __call__(self, *_: object) -> _Array:
        return _Array()


class _DataOnly(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        match module, name:
            case "numpy.core.multiarray" | "numpy._core.multiarray", "_reconstruct":
                return _NewArray()
            case "numpy", "ndarray":
                return _NewArray()
            case "numpy", "dtype":
                return _Bytes()
        raise pickle.UnpicklingError(f"the name {module}.{name}, which no CIFAR file holds")

    def persistent_load(self, pid: object) -> Any:
        raise pickle.UnpicklingError("a reference to something outside of it")


def read_pickle(content: bytes, what: str) -> dict[str, Any]:
    """The dictionary in a CIFAR file: arrays as uint8, lists and text as they are."""
    try:
        loaded = _DataOnly(io.BytesIO(content), encoding="bytes").load()
    except Exception as error:  # a broken pickle can raise anything; none of it is worth more than its message
        raise InputError(
            f"{what} cannot be read as a CIFAR file: it holds {error}. Nothing in it was run. "
            "Download the official archive again."
        ) from error
    if not isinstance(loaded, dict):
        raise InputError(f"{what} must hold a dictionary, as CIFAR's files do: got {type(loaded).__name__}.")
    return {str(_plain(key)): _plain(value) for key, value in loaded.items()}


def _plain(value: object) -> Any:
    """Arrays as numpy's, and Python 2's strings as text."""
    match value:
        case _Array():
            return value.values()
        case bytes():
            return value.decode("latin1")
        case list():
            return [_plain(item) for item in value] if value and isinstance(value[0], bytes) else value
    return value
