"""numpy's files: .npz with samples and labels, or two .npy files."""

from collections.abc import Mapping
from math import isnan
from numbers import Real
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from torch import Tensor

from sincere.data.conversion import plain_array
from sincere.data.label_lines import check_as_many, read_label_lines
from sincere.data.numpy_files import is_numpy_file, load_arrays
from sincere.data.options import Settings
from sincere.data.ready import Ready, features_from, images_from, lost_digits
from sincere.data.samples import UNLABELLED, Classes, Found, classes_of_numbers, listed, number_classes, unlabelled
from sincere.errors import InputError
from sincere.tables import amount
from sincere.types import Kind

Array = npt.NDArray[np.generic]
Keys: TypeAlias = tuple[str, str | None]  # of samples, and of their labels
# Names that people give to samples and to labels, tried in this order and in any case.
PAIRS = (
    ("x", "y"),
    ("images", "labels"),
    ("features", "labels"),
    ("embeddings", "labels"),
    ("inputs", "labels"),
    ("data", "labels"),
    ("data", "target"),
    ("x", "labels"),
    ("arr_0", "arr_1"),
)
PARTS = {"train": ("train",), "validation": ("val", "validation", "valid"), "test": ("test",)}
LARGEST = 2**63  # from here on int64 has no such number
NAMES = ("class_names", "classes", "target_names", "label_names")
WAVEFORMS = "Waveforms are read from WAV files, in a folder with a sub-folder per class."


def read_npz(path: Path, settings: Settings) -> Found:
    """Arrays x and y, or x_train, y_train, x_test, y_test, or other names that are usual or given by option."""
    arrays = load_arrays(path)
    if not isinstance(arrays, dict):
        raise InputError(f"{path} must be an .npz archive of arrays: it holds a single array.")
    names = next((tuple(_texts(arrays[key].ravel())) for key in arrays if key.lower() in NAMES), None)
    pairs = _pairs(arrays, path, settings)
    parts = {
        part: samples_of_arrays(
            (arrays[x], f"{x} of {path}"), None if y is None else (arrays[y], f"{y} of {path}"), names, settings
        )
        for part, (x, y) in pairs.items()
    }
    if "train" not in parts:
        raise InputError(f"{path} must hold samples to train on: it has {listed(list(pairs))} only.")
    notes = (_without_labels(path),) if pairs["train"][1] is None else ()
    return Found(path.stem, parts["train"], parts.get("validation"), parts.get("test"), notes)


def read_npy(path: Path, settings: Settings) -> Found:
    """Samples of an .npy; labels of what label_column names, .npy or lines of text, or of `y….npy` beside `x….npy`."""
    optional = settings.labels == "optional"
    labels_path = Path(settings.label_column) if settings.label_column else _labels_beside(path, optional=optional)
    if labels_path is None:
        x = load_arrays(path)
        if isinstance(x, dict):
            raise InputError(f"{path} must be an .npy file of one array: got an .npz archive.")
        return Found(path.stem, samples_of_arrays((x, str(path)), None, None, settings), notes=(_without_labels(path),))
    if not labels_path.is_file():
        raise InputError(f"{path} must have its labels in another file: {labels_path} is not there.")
    x, y = (
        load_arrays(path),
        load_arrays(labels_path) if is_numpy_file(labels_path) else read_label_lines(labels_path),
    )
    if isinstance(x, dict) or isinstance(y, dict):
        raise InputError(f"{path} and {labels_path} must be .npy files of one array each: got an .npz archive.")
    if not is_numpy_file(labels_path) and x.ndim:
        check_as_many(labels_path, y, len(x), str(path))
    return Found(path.stem, samples_of_arrays((x, str(path)), (y, str(labels_path)), None, settings))


def _without_labels(path: Path) -> str:
    return (
        f"{path} has no labels: its samples are of one class, {UNLABELLED!r}. If it has them, say where: "
        "label_column='…'."
    )


def _labels_beside(path: Path, *, optional: bool) -> Path | None:
    stem = path.stem
    names = [f"{stem}_labels", f"{stem}_y"]
    for samples, labels in PAIRS:
        if stem.lower().startswith(samples):
            names.append(labels + stem[len(samples) :])
    candidates = [path.with_name(f"{name}.npy") for name in dict.fromkeys(names)]
    found = next((candidate for candidate in candidates if candidate.is_file()), None)
    if found is None and not optional:
        raise InputError(
            f"{path} must have its labels in a file beside it, {' or '.join(c.name for c in candidates)}: none is "
            "there. Name it: label_column='PATH'."
        )
    return found


def _pairs(arrays: Mapping[str, Array], path: Path, settings: Settings) -> dict[str, Keys]:
    """Keys of samples and labels for each part that is there; no labels where they are optional and missing."""
    if settings.input_column or settings.label_column:
        return {"train": _named_keys(arrays, path, settings)}
    keys = {key.lower(): key for key in arrays}
    for x, y in PAIRS:
        if x in keys and y in keys:
            return {"train": (keys[x], keys[y])}
        if parts := _keys_of_parts(keys, x, y):
            return parts
    if settings.labels == "optional":
        alone = next((keys[x] for x, _ in PAIRS if x in keys), next(iter(arrays)) if len(arrays) == 1 else None)
        if alone is not None:
            return {"train": (alone, None)}
    raise InputError(
        f"{path} must hold samples and labels under usual names (x and y; x_train, y_train, x_test, y_test; data and "
        f"target; …): it holds {_shapes(arrays)}. Name them: input_column='…', label_column='…'."
    )


def _named_keys(arrays: Mapping[str, Array], path: Path, settings: Settings) -> Keys:
    """The keys that the caller named, each beside x or y where only one was."""
    samples, labels = settings.input_column or "x", settings.label_column or "y"
    missing = [key for key in (samples, labels) if key not in arrays]
    if settings.labels == "optional" and missing == [labels]:
        usual = (key for _, key in PAIRS if key in arrays and key != samples)
        return samples, next(usual, None)
    if missing:
        raise InputError(
            f"{path} must hold {' and '.join(map(repr, missing))}: it holds {_shapes(arrays)}. Name samples and "
            "labels: input_column='…', label_column='…'."
        )
    return samples, labels


def _keys_of_parts(keys: Mapping[str, str], x: str, y: str) -> dict[str, Keys]:
    """Keys such as x_train with y_train, or train_x with train_y, by part; `keys` are by their lower-case spelling."""
    found: dict[str, Keys] = {}
    for part, words in PARTS.items():
        for word in words:
            for x_key, y_key in ((f"{x}_{word}", f"{y}_{word}"), (f"{word}_{x}", f"{word}_{y}")):
                if x_key in keys and y_key in keys:
                    found[part] = (keys[x_key], keys[y_key])
    return found


def _shapes(arrays: Mapping[str, Array]) -> str:
    return listed([f"{key} {array.shape}" for key, array in arrays.items()])


def array_of(values: npt.ArrayLike | Tensor, what: str) -> Array:
    """Whatever holds numbers or names, as an array."""
    found = plain_array(what, values)
    if found.dtype.kind == "U" and isinstance(values, list | tuple):
        gap = next((place for place, value in enumerate(values) if isinstance(value, float) and isnan(value)), None)
        if gap is not None:  # NumPy has made a name of it, 'nan'
            raise InputError(f"{what} must hold names throughout: row {gap} holds nan. Mend it, or leave it out.")
    if found.dtype != object:
        return found
    if found.ndim == 0:
        dense = f" Pass {what}.toarray()." if hasattr(values, "toarray") else ""  # of scipy's sparse matrices
        raise InputError(f"{what} must be an array, or lists of one length: got {type(values).__name__}.{dense}")
    return _of_one_kind(found, what)


def _of_one_kind(found: Array, what: str) -> Array:
    """Objects that are names all of them, or numbers all of them, as pandas keeps them; refuses what is neither."""
    flat = found.ravel().tolist()
    named = sum(isinstance(value, str) for value in flat)
    if named == len(flat):
        return found.astype(str)
    usual: type = str if 2 * named >= len(flat) else Real
    odd = next((place for place, value in enumerate(flat) if not isinstance(value, usual)), None)
    if odd is None:
        return np.array(flat).reshape(found.shape)
    row, *column = (int(place) for place in np.unravel_index(odd, found.shape))
    where = f"row {row}" + (f", column {column[0]}," if column else "")
    kind = "names" if usual is str else "numbers"
    raise InputError(f"{what} must hold {kind} throughout: {where} holds {flat[odd]!r}. Mend it, or leave it out.")


def samples_of_arrays(
    inputs: tuple[Array, str], labels: tuple[Array, str] | None, names: tuple[str, ...] | None, settings: Settings
) -> Ready:
    """Samples and their classes, each an array and where it stands, in words."""
    x, what = inputs
    classes = unlabelled(len(x) if x.ndim else 0) if labels is None else _classes(*labels, names)
    if x.ndim == 0 or len(x) != len(classes):
        raise InputError(
            f"{what} must have one label per sample: its shape {x.shape} does not match "
            f"{amount(len(classes), 'label')}."
        )
    _check_numbers(x, what, settings.kind)
    if settings.kind == "image" or (settings.kind is None and x.dtype == np.uint8 and x.ndim > 2):
        if x.dtype != np.uint8:
            raise InputError(f"images in {what} must be uint8, 0 to 255: {_as_uint8(x)}")
        return Ready(images_from(x.astype(np.uint8, copy=False), what), classes, "image")
    if x.ndim != 2 and settings.kind is None:
        raise InputError(_no_features(x, what))
    features = features_from(x, what)
    exact = x.dtype.kind == "b" or np.can_cast(x.dtype, np.float32)
    columns = {} if exact else {str(place): values for place, values in enumerate(x.reshape(len(x), -1).T)}
    return Ready(features, classes, "array", refused=lost_digits(columns, what))


def _check_numbers(x: Array, what: str, kind: Kind | None) -> None:
    """Refuse what an array cannot hold, and say where it can be read from."""
    if x.dtype.kind in "US" or kind == "text":
        came = f"{x.dtype}{'' if kind is None else f', kind={kind!r}'}"
        raise InputError(f"{what} must hold numbers: got {came}. Save texts as a .csv with the columns text and label.")
    if kind == "sound":
        raise InputError(f"{what} holds an array or images: got kind={kind!r}. {WAVEFORMS}")


def _no_features(x: Array, what: str) -> str:
    """Why an array of more or fewer than two dimensions is refused, and what to do with what it looks like."""
    flattens = "kind='array' flattens each sample."
    if x.ndim == 4 or (x.ndim == 3 and min(x.shape[1:]) > 2):  # with one or two rows they are rather channels
        return (
            f"{what} must be (samples, features), or images, uint8 from 0 to 255: {_as_uint8(x)} If these are no "
            f"images, {flattens}"
        )
    return (
        f"{what} must be (samples, features), or uint8 images with 3 or 4 dimensions: got {x.dtype} {x.shape}. "
        f"{flattens} {WAVEFORMS if x.ndim == 3 else ''}".rstrip()
    )


def _as_uint8(x: Array) -> str:
    """What came in place of images of uint8, and what makes such of it."""
    if x.dtype.kind not in "biuf" or not x.size:
        return f"got {x.dtype} {x.shape}."
    least, largest = x.min().item(), x.max().item()
    came = f"got {x.dtype} {x.shape} from {least:.6g} to {largest:.6g}."
    if not (least >= 0 and largest <= 255):  # nor NaN
        return f'{came} Bring the values to 0 to 255 and save them as .round().astype("uint8").'
    if x.dtype.kind in "iu":
        return f'{came} Save x.astype("uint8").'
    scaled = "(x * 255)" if largest <= 1 else "x"
    return f'{came} Save {scaled}.round().astype("uint8").'


def _classes(y: Array, what: str, names: tuple[str, ...] | None) -> Classes:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1:
        raise InputError(
            f"the labels, {what}, must be (samples,), one class each: got {y.shape}. For one-hot labels save "
            "y.argmax(1)."
        )
    if y.dtype.kind in "US":
        return number_classes(_texts(y))
    if y.dtype.kind == "f" and not np.array_equal(y, np.round(y.astype(np.float64))):
        raise InputError(
            f"the labels, {what}, must be classes, whole numbers or text: got {y.dtype} with fractions or NaN."
        )
    if y.dtype.kind not in "biuf":
        raise InputError(f"the labels, {what}, must be whole numbers or text: got {y.dtype}.")
    if y.dtype.kind in "uf" and len(y) and np.abs(y).max() >= LARGEST:
        raise InputError(
            f"the labels, {what}, must be whole numbers below 2**63: got {y.dtype} up to {np.abs(y).max()}. Save "
            "larger ones as text."
        )
    return classes_of_numbers(y.astype(np.int64), names)


def _texts(values: Array) -> list[str]:
    """Names as text; bytes, in which h5py and older files keep them, are UTF-8."""
    plain = values.tolist()
    return [value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else str(value) for value in plain]
