"""Records ↔ JSON, by their fields' types: figures stay readable, long lists and matrices are packed."""

import json
import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from sincere.checks import is_number
from sincere.errors import InputError
from sincere.evaluate.packing import pack, unpack

PACKED_FROM = 48  # numbers; shorter lists can be read as they are
LARGEST_INT32 = 2**31 - 1
T = TypeVar("T")


def to_document(record: object, kind: str) -> str:
    """One record as JSON that says what it is."""
    document = {"format": kind, **_encoded(record)}
    return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)


def from_document(cls: type[T], text: str, kind: str) -> T:
    """What `to_document` wrote."""
    try:
        document = json.loads(text)
        found = document.pop("format", None) if isinstance(document, dict) else None
        if found != kind:
            raise InputError(f"this must be JSON of the format {kind!r}: got {found!r}.")
        decoded: T = _decoded(cls, document)
        return decoded
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"this is not a complete {kind} record: {error!r}. Make it again.") from error


def _encoded(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _encoded(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): _encoded(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        shape = _shape(value)
        return _packed(value, shape) if shape and math.prod(shape) >= PACKED_FROM else [_encoded(x) for x in value]
    return value


def _shape(values: Sequence[Any]) -> tuple[int, ...] | None:
    """(n,) of numbers, (n, m) of equally long rows of numbers; None for anything else."""
    if all(_is_cell(value) for value in values):
        return (len(values),)
    if not all(isinstance(row, tuple) and len(row) == len(values[0]) for row in values):
        return None
    return (len(values), len(values[0])) if all(_is_cell(x) for row in values for x in row) else None


def _is_cell(value: object) -> bool:
    return value is None or is_number(value)


def _packed(values: Sequence[Any], shape: tuple[int, ...]) -> dict[str, Any]:
    """None travels as NaN inside the packed bytes, integers that 32 bits cannot hold as float64."""
    flat = [x for row in values for x in row] if len(shape) == 2 else list(values)
    if all(isinstance(x, int) and abs(x) <= LARGEST_INT32 for x in flat):
        return {"shape": list(shape), **pack(flat)}
    return {"shape": list(shape), **pack([math.nan if x is None else float(x) for x in flat])}


def _decoded(hint: Any, value: Any) -> Any:
    """`value` as the type `hint` says."""
    if get_origin(hint) is UnionType:
        kinds = [kind for kind in get_args(hint) if kind is not NoneType]
        return None if value is None else _decoded(kinds[0], value)
    if is_dataclass(hint) and isinstance(hint, type):
        hints = get_type_hints(hint)
        unknown = set(value) - set(hints)
        if unknown:
            raise InputError(f"{hint.__name__} has no field {min(unknown)!r}: it was written by another version.")
        return hint(**{name: _decoded(hints[name], entry) for name, entry in value.items()})
    if get_origin(hint) is dict:
        key, entry = get_args(hint)
        return {key(name): _decoded(entry, one) for name, one in value.items()}
    if get_origin(hint) is tuple:
        entry = get_args(hint)[0]
        return tuple(_decoded(entry, one) for one in (_unpacked(value) if isinstance(value, dict) else value))
    return _number(hint, value)


def _unpacked(value: dict[str, Any]) -> list[Any]:
    shape = value["shape"]
    flat = [None if x != x else x for x in unpack({name: value[name] for name in ("type", "count", "zlib64")})]
    if len(flat) != math.prod(shape):
        raise InputError(f"a packed list must hold as many values as its shape says, {shape}: it holds {len(flat)}.")
    return [flat[i : i + shape[1]] for i in range(0, len(flat), shape[1])] if len(shape) == 2 else flat


def _number(hint: Any, value: Any) -> Any:
    if hint is float and isinstance(value, (int, float)):
        return float(value)
    if hint is int and isinstance(value, float):
        return int(value)
    if not isinstance(value, hint):
        raise InputError(f"a field must be {hint.__name__}: got {value!r}.")
    return value
