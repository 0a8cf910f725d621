"""Arrays that somebody else made, read without trusting them: no pickled object is ever loaded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from sincere.checks import check_choice
from sincere.data.label_lines import check_as_many, read_label_lines
from sincere.data.numpy_files import is_numpy_file, load_arrays
from sincere.errors import InputError

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Unlabelled: TypeAlias = Literal["refuse", "drop", "class"]
EMBEDDINGS = ("embeddings", "x", "X", "features")  # the first that is there holds the embeddings
LABELS = ("labels", "y", "Y")


@dataclass(frozen=True)
class Arrays:
    """What one file, or a file and its labels' file, hold; not checked for agreement yet."""

    embeddings: Array
    labels: Array
    name: str
    features: Array | None = None
    class_names: tuple[str, ...] | None = None
    shown: tuple[str, ...] | None = None
    images: Array | None = None
    samples: str | None = None
    model: str | None = None


def read_arrays(path: Path, labels: Path | None) -> Arrays:
    """An `.npz` with everything, or an `.npy`, with labels in a file of their own if there is one."""
    found = _open(path)
    if not isinstance(found, Mapping):
        if labels is None:
            raise InputError(f"{path} holds one array without labels: pass the file with them, labels=….")
        known = _read_labels(labels)
        if not is_numpy_file(labels) and found.ndim:
            check_as_many(labels, known, len(found), str(path))
        return Arrays(embeddings=found, labels=known, name=path.stem)
    key = _first(found, EMBEDDINGS)
    label_key = _first(found, LABELS)
    if key is None or (label_key is None and labels is None):
        wanted = "embeddings (also x, features)" if key is None else "labels (also y)"
        apart = "" if key is None else " Save them with it, or name them in a file of their own, labels=…."
        raise InputError(f"{path} must hold {wanted}: it holds {', '.join(found) or 'nothing'}.{apart}")
    return Arrays(
        embeddings=found[key],
        labels=_read_labels(labels) if labels is not None else found[str(label_key)],
        name=str(found["name"]) if "name" in found and found["name"].ndim == 0 else path.stem,
        features=found["features"] if key != "features" and "features" in found else None,
        class_names=_texts(found["class_names"], path) if "class_names" in found else None,
        shown=_texts(found["shown"], path) if "shown" in found else None,
        images=found.get("images"),
        samples=_identity(found, "samples"),
        model=_identity(found, "model"),
    )


def _identity(found: Mapping[str, Array], key: str) -> str | None:
    return str(found[key]) if key in found and _is_text(found[key]) else None


def _is_text(value: Array) -> bool:
    return value.ndim == 0 and value.dtype.kind == "U"


def whole_or_text(labels: Array) -> Array:
    """Labels as whole numbers or texts, one a sample."""
    if labels.ndim != 1:
        raise InputError(f"labels must hold one class a sample, shape (n,): got {labels.shape}.")
    if labels.dtype.kind == "O":  # as pandas keeps texts, and whole numbers in a column that may lack some
        for kind, dtype in ((str, np.str_), (bool, np.bool_), (Integral, np.int64)):
            if all(isinstance(label, kind) for label in labels):
                labels = _converted(labels, dtype)
                break
    if labels.dtype.kind == "f":
        if not np.array_equal(labels, np.round(labels)) or not np.all(np.abs(labels) < 2**63):  # NaN is not itself
            raise InputError("labels must be whole numbers or texts: got numbers with a fraction, NaN or infinity.")
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "biuUT":
        raise InputError(f"labels must be whole numbers or texts: got {labels.dtype}.")
    return labels


def _converted(labels: Array, dtype: type[np.generic]) -> Array:
    try:
        return labels.astype(dtype)
    except OverflowError as error:
        raise InputError("labels must be whole numbers below 2⁶³, or texts: got a larger one.") from error


def kept_samples(labels: Array, unlabelled: Unlabelled, class_names: tuple[str, ...] | None) -> Array | None:
    """Which samples a set takes, (n,); None for all. The number −1 is the losses' mark of unlabelled samples."""
    check_choice("unlabelled", unlabelled, get_args(Unlabelled))
    if unlabelled == "class" or labels.dtype.kind != "i":
        return None
    marked: Array = labels == -1
    if not marked.any():
        return None
    if unlabelled == "refuse":
        ways = 'unlabelled="drop" leaves those out'
        if class_names is None:
            ways += '; unlabelled="class" makes them a class like any other, as texts for labels do'
        raise InputError(
            f"labels of −1 mean unlabelled, as in the losses, and a set holds labelled samples: {marked.sum()} of "
            f"{len(labels)} samples have it. Say what is meant: {ways}."
        )
    return np.logical_not(marked)


def classes_of(labels: Array, class_names: tuple[str, ...] | None) -> tuple[Array, tuple[str, ...]]:
    """Labels as numbers 0 .. classes − 1, with the classes' names."""
    if class_names is None:
        values, numbers = np.unique(labels, return_inverse=True)
        return numbers.astype(np.int64), tuple(map(str, values.tolist()))
    if labels.dtype.kind in "biu":
        return labels.astype(np.int64), class_names  # EmbeddingSet checks the range
    places = {name: place for place, name in enumerate(class_names)}
    unknown = sorted({str(label) for label in labels.tolist()} - set(places))
    if unknown:
        raise InputError(f"every label must be one of class_names: {unknown[0]!r} is not (of {len(unknown)}).")
    return np.array([places[str(label)] for label in labels.tolist()], dtype=np.int64), class_names


def float_rows(name: str, values: Array, *, tensor: bool = False) -> Array:
    """Numbers as float32 rows. `tensor`: the caller had one, so that advice on views is given in torch's words."""
    if values.dtype.kind not in "fiub":
        raise InputError(f"{name} must be numbers: got {values.dtype}.")
    if values.ndim != 2:
        raise InputError(f"{name} must have shape (n, d): got {values.shape}.{_hint_about_shape(values, tensor)}")
    with np.errstate(over="ignore"):  # what float32 cannot hold becomes infinite, and is refused with its rows
        rows = np.ascontiguousarray(values, dtype=np.float32)
    return writable(rows)


def _hint_about_shape(values: Array, tensor: bool) -> str:
    if values.ndim != 3:
        return " Flatten each sample first." if values.ndim > 3 else ""
    views = values.shape[1]
    rows, labels = (
        ("embeddings.flatten(0, 1)", f"labels.repeat_interleave({views})")
        if tensor
        else (f"embeddings.reshape(-1, {values.shape[2]})", f"np.repeat(labels, {views})")
    )
    return (
        f" Flatten the {views} views of a sample and repeat its label, `EmbeddingSet.from_arrays({rows}, {labels})`; "
        "or, where these are no views, flatten each sample."
    )


def writable(values: Array) -> Array:
    """The same array, or a copy of one that is read-only (memory-mapped, from pandas): torch has no such tensors."""
    return values if values.flags.writeable else values.copy()


def _open(path: Path) -> Array | dict[str, Array]:
    if not path.exists():
        raise InputError(f"there is no file {path}.")
    if not is_numpy_file(path):
        raise InputError(
            f"embeddings must lie in an .npz or an .npy file: got {path}. Save arrays called embeddings and labels by "
            "numpy.savez."
        )
    return load_arrays(path)


def _read_labels(path: Path) -> Array:
    if is_numpy_file(path):
        found = _open(path)
        key = _first(found, LABELS) if isinstance(found, Mapping) else None
        if isinstance(found, Mapping) and key is None:
            raise InputError(f"{path} must hold labels (also y): it holds {', '.join(found)}.")
        return found[str(key)] if isinstance(found, Mapping) else found
    return read_label_lines(path)


def _first(found: Mapping[str, Array], keys: tuple[str, ...]) -> str | None:
    return next((key for key in keys if key in found), None)


def _texts(values: Array, path: Path) -> tuple[str, ...]:
    """Texts as an array of them, or as JSON in bytes."""
    if values.dtype == np.uint8:
        try:
            return tuple(map(str, json.loads(values.tobytes())))
        except ValueError as error:
            raise InputError(f"{path} holds bytes where a list of texts should be: {error}.") from error
    return tuple(map(str, values.tolist()))
