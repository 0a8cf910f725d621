"""Long lists of numbers as short text inside JSON: compressed bytes in base64, with their type beside them."""

import base64
import zlib
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from sincere.errors import InputError

Packed: TypeAlias = dict[str, str | int]
TYPES = {"bits": "|u1", "int32": "<i4", "float64": "<f8"}


def pack(values: Sequence[bool] | Sequence[int] | Sequence[float]) -> Packed:
    """One bit a truth value, four bytes an integer, eight a number; then compressed."""
    array = np.asarray(values)
    kind = {"b": "bits", "i": "int32"}.get(array.dtype.kind, "float64")
    data = np.packbits(array) if kind == "bits" else array.astype(TYPES[kind])
    return {"type": kind, "count": len(values), "zlib64": base64.b64encode(zlib.compress(data.tobytes(), 9)).decode()}


def unpack(packed: Packed) -> list[bool] | list[int] | list[float]:
    """The values that `pack` was given."""
    try:
        kind, count = str(packed["type"]), int(packed["count"])
        data = np.frombuffer(zlib.decompress(base64.b64decode(str(packed["zlib64"]))), dtype=TYPES[kind])
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise InputError(
            f"a packed list must hold type, count and zlib64, as `pack` writes them: {error!r}."
        ) from error
    held, needed = len(data), (count + 7) // 8 if kind == "bits" else count
    if held != needed:
        raise InputError(f"a packed list must hold as many values as its count says, {count}: it does not.")
    values = np.unpackbits(data, count=count).astype(bool) if kind == "bits" else data
    found: list[bool] | list[int] | list[float] = values.tolist()
    return found
