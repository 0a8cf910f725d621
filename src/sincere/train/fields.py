"""Frozen dataclasses that check their own fields, and go to JSON and back; unknown names are refused, with a hint."""

import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from math import isfinite
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from sincere.checks import did_you_mean, is_number, is_whole
from sincere.errors import OptionError

T = TypeVar("T")


def check_fields(record: Any) -> None:
    """Refuse a field whose value is not of its declared type, or a number that is not finite."""
    for name, hint in _hints(type(record)).items():
        value = getattr(record, name)
        if not _fits(value, hint):
            choices = [word for kind in _kinds(hint) if get_origin(kind) is Literal for word in get_args(kind)]
            raise OptionError(f"{name} must be {_in_words(hint)}: got {value!r}.{did_you_mean(value, choices)}")


def check_at_least(least: float, **values: float | None) -> None:
    """Numbers with a lower bound; None is left alone."""
    for name, value in values.items():
        if value is not None and value < least:
            raise OptionError(f"{name} must be at least {least:g}: got {value}.")


def to_json(record: Any) -> dict[str, Any]:
    """A record as a JSON object; records inside it become objects."""
    return {field.name: _plain(getattr(record, field.name)) for field in fields(record)}


def from_json(cls: type[T], values: Mapping[str, Any], *, where: str = "") -> T:
    """The record that `to_json` wrote; fields that are left out keep their defaults."""
    hints = _hints(cls)
    for name in values:
        if name not in hints:
            hint = did_you_mean(name, hints, where=where)
            raise OptionError(f"unknown setting {where + name!r}.{hint} Settings there: {', '.join(hints)}.")
    made: dict[str, Any] = {}
    for name, value in values.items():
        inner = next((kind for kind in _kinds(hints[name]) if isinstance(kind, type) and is_dataclass(kind)), None)
        if inner is not None and isinstance(value, Mapping):
            made[name] = from_json(inner, value, where=f"{where}{name}.")
        else:
            made[name] = tuple(value) if isinstance(value, list) else value
    with of_group(where.removesuffix(".")):
        return cls(**made)


@contextmanager
def of_group(name: str) -> Iterator[None]:
    """Put the group of settings, if any, before what is said of an option of it: `head: dim must be …`."""
    try:
        yield
    except OptionError as error:
        if not name:
            raise
        raise OptionError(f"{name}: {error}") from error


def differences(ours: Mapping[str, Any], theirs: Mapping[str, Any], *, where: str = "") -> Iterator[str]:
    """Every setting that differs between two JSON objects: `optimizer.lr: 0.5 → 0.1`."""
    for name in sorted(ours.keys() | theirs.keys()):
        mine, other = ours.get(name), theirs.get(name)
        if isinstance(mine, Mapping) and isinstance(other, Mapping):
            yield from differences(mine, other, where=f"{where}{name}.")
        elif mine != other:
            yield f"{where}{name}: {mine!r} → {other!r}"


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return to_json(value)
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _hints(cls: type) -> dict[str, Any]:
    hints = get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _kinds(hint: Any) -> tuple[Any, ...]:
    """The members of a union, or the type itself."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _fits(value: Any, hint: Any) -> bool:
    return any(_fits_one(value, kind) for kind in _kinds(hint))


def _fits_one(value: Any, kind: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind) and type(value) in {type(choice) for choice in get_args(kind)}
    if kind is int:
        return is_whole(value)
    if kind is float:
        return is_whole(value) or (is_number(value) and isfinite(value))  # `isfinite` takes no whole number of any size
    if get_origin(kind) is tuple:
        members = get_args(kind)
        expected = members[:1] * len(value) if isinstance(value, tuple) and members[-1] is Ellipsis else members
        return (
            isinstance(value, tuple)
            and len(value) == len(expected)
            and all(_fits(item, member) for item, member in zip(value, expected, strict=True))
        )
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(isinstance(key, str) for key in value) and _is_json(value)
    return isinstance(value, kind)


def _is_json(value: Any) -> bool:
    """Can a run write it down, and read it back? No function, array or NaN."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_json(item) for key, item in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_json, value))
    return value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def _in_words(hint: Any) -> str:
    return " or ".join(_one_in_words(kind) for kind in _kinds(hint))


def _one_in_words(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    if get_origin(kind) is tuple:
        return f"a list of {get_args(kind)[0].__name__}"
    names = {
        int: "a whole number",
        float: "a finite number",
        bool: "true or false",
        str: "a text",
        type(None): "none",
    }
    if get_origin(kind) is dict:
        return "a table of options by name, of what JSON can hold"
    return names.get(kind) or f"a {kind.__name__}"
