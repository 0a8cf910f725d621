"""What every experiment of this package returns: a frozen record that can be saved and read back."""

import json
from dataclasses import fields, is_dataclass
from math import isfinite
from types import NoneType, UnionType
from typing import Any, Self, Union, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

from sincere.defaults import usual_defaults
from sincere.errors import InputError


class Record:
    """JSON for frozen dataclasses of numbers, words, tuples, dicts, tensors and other records."""

    def to_json(self) -> str:
        """As JSON, every number in full; JSON has no NaN and no infinity, so these are the words "nan" and "inf"."""
        document = {"format": _format_of(type(self)), **_plain_fields(self)}
        return json.dumps(document, indent=1, ensure_ascii=False, allow_nan=False)

    @classmethod
    @usual_defaults()
    def from_json(cls, text: str) -> Self:
        """The record that `to_json` wrote."""
        try:
            document = json.loads(text)
            found = document.pop("format", None) if isinstance(document, dict) else None
            if found != _format_of(cls):
                raise InputError(f"this record must be JSON of the format {_format_of(cls)!r}: got {found!r}.")
            record = _restored(document, cls)
            assert isinstance(record, cls)
            return record
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"this is not a complete {cls.__name__}: {error!r}. Run the experiment again.") from error


def _format_of(cls: type) -> str:
    return f"sincere.theory.{cls.__name__}/1"


def _plain_fields(record: Any) -> dict[str, Any]:
    return {field.name: _plain(getattr(record, field.name)) for field in fields(record)}


def _plain(value: Any) -> Any:
    if isinstance(value, Tensor):
        return {
            "dtype": str(value.dtype).removeprefix("torch."),
            "shape": list(value.shape),
            "values": _plain(value.tolist()),
        }
    if is_dataclass(value):
        return _plain_fields(value)
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not isfinite(value) else value


def _restored(value: Any, kind: Any) -> Any:
    """`value` from JSON as what the field's annotation says."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (UnionType, Union):
        if value is None:
            return None
        return _restored(value, next(argument for argument in arguments if argument is not NoneType))
    if kind is Tensor:
        return torch.tensor(_numbers(value["values"]), dtype=getattr(torch, value["dtype"])).reshape(value["shape"])
    if is_dataclass(kind):
        hints = get_type_hints(kind)
        names = {field.name for field in fields(kind)}
        if set(value) != names:
            raise KeyError(*sorted(names.symmetric_difference(value)))
        build: Any = kind
        return build(**{name: _restored(item, hints[name]) for name, item in value.items()})
    if origin is tuple:
        kinds = [arguments[0]] * len(value) if arguments[1:] == (Ellipsis,) else list(arguments)
        return tuple(_restored(item, each) for item, each in zip(value, kinds, strict=True))
    if origin is dict:
        return {arguments[0](key): _restored(item, arguments[1]) for key, item in value.items()}
    return _numbers(value) if kind is float else value


def _numbers(value: Any) -> Any:
    """Numbers, or nested lists of them, with the words for NaN and infinity as what they mean."""
    if isinstance(value, list):
        return [_numbers(item) for item in value]
    return float(value) if isinstance(value, str) else value
