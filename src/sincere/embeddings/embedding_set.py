"""Embeddings of labelled samples, as a record in memory and as one `.npz` file without pickled objects."""

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from sincere.checks import check_class_range, check_device, check_finite, check_labels, shape_of
from sincere.data.conversion import as_indices, plain_array
from sincere.embeddings.arrays import (
    Unlabelled,
    classes_of,
    float_rows,
    kept_samples,
    read_arrays,
    whole_or_text,
)
from sincere.embeddings.thumbnails import SIDE, thumbnails_of
from sincere.errors import InputError, OptionError
from sincere.runs.files import replaced
from sincere.tables import amount

Samples = TypeVar("Samples", np.ndarray, tuple[str, ...])


@dataclass(frozen=True, eq=False)
class EmbeddingSet:
    """What a model made of a set of labelled samples: all that evaluation, geometry and reports need.

    >>> made = EmbeddingSet.from_arrays([[1.0, 0.0], [0.0, 1.0], [0.9, 0.1]], ["cat", "dog", "cat"], name="pets")
    >>> made.class_names, made.labels.tolist(), len(made)
    (('cat', 'dog'), [0, 1, 0], 3)
    >>> made
    EmbeddingSet('pets': 3 samples of 2 classes, embeddings (3, 2))

    Embeddings are the head's output, features the encoder's; neither has to be normalised. Every sample has a class:
    those that the losses take for unlabelled, −1, are left out or a class of their own, as `from_arrays` is told.
    """

    embeddings: Tensor  # float32 (n, d)
    labels: Tensor  # int64 (n,), 0 .. len(class_names) - 1
    class_names: tuple[str, ...]
    name: str
    features: Tensor | None = None  # float32 (n, f)
    shown: tuple[str, ...] | None = None  # what a person would want to see of a sample: its text, its file's path
    images: Tensor | None = None  # uint8 (n, h, w) or (n, h, w, 3), on the CPU: pictures of at most 32 × 32
    samples: str | None = None  # which samples these are (`sincere.embeddings.identity`), where that is known
    model: str | None = None  # whose embeddings: a digest of the model's weights, where that is known

    def __post_init__(self) -> None:
        _check_rows("embeddings", self.embeddings)
        check_labels("labels", self.labels, len(self), "embeddings", self.embeddings.device)
        if self.labels.ndim != 1 or self.labels.dtype != torch.int64:
            raise InputError(
                f"labels must be int64 of shape ({len(self)},): got {self.labels.dtype} of shape "
                f"{shape_of(self.labels)}. EmbeddingSet.from_arrays(...) takes other kinds."
            )
        if self.features is not None:
            _check_rows("features", self.features)
            check_device("features", self.features, "embeddings", self.embeddings.device)
            if self.features.shape[0] != len(self):
                raise InputError(
                    f"features must hold {len(self)} rows, one an embedding: got {self.features.shape[0]}."
                )
        if self.shown is not None and len(self.shown) != len(self):
            raise InputError(f"shown must hold {len(self)} texts, one an embedding: got {len(self.shown)}.")
        if self.images is not None:
            _check_images(self.images, len(self))
        if len(set(self.class_names)) != len(self.class_names):
            raise InputError("class_names must differ from each other: one of them comes twice.")
        if len(self):
            check_class_range("labels", int(self.labels.min()), int(self.labels.max()), len(self.class_names))

    def __len__(self) -> int:
        return self.embeddings.shape[0]

    def __repr__(self) -> str:
        """What it is, not what is in it: a notebook would print ten thousand file names."""
        held = f"{amount(len(self), 'sample')} of {amount(len(self.class_names), 'class', 'classes')}"
        parts = [held, f"embeddings {shape_of(self.embeddings)}"]
        if self.features is not None:
            parts.append(f"features {shape_of(self.features)}")
        parts += [name for name in ("shown", "images") if getattr(self, name) is not None]
        return f"EmbeddingSet({self.name!r}: {', '.join(parts)})"

    @classmethod
    def from_arrays(
        cls,
        embeddings: object,
        labels: object,
        *,
        class_names: Iterable[object] | None = None,
        name: str = "arrays",
        features: object = None,
        shown: Iterable[object] | None = None,
        images: object = None,
        samples: str | None = None,
        model: str | None = None,
        unlabelled: Unlabelled = "refuse",
    ) -> "EmbeddingSet":
        """From tensors, NumPy arrays or lists.

        Labels may be texts or any integers: without `class_names`, the sorted labels become the classes. Images, uint8
        and of any size, are kept as thumbnails.

        Args:
            samples: a text that is the same for all sets of the same samples, and another for others; comparisons
                then refuse those.
            model: likewise a text for each model: embeddings of two models have no cosines with each other.
            unlabelled: what the number −1 as a label means, which marks unlabelled samples in the losses. A set has
                none of those, so it is refused until you say: "drop" leaves these samples out, with whatever came
                along with them; "class" makes −1 a class like any other.
        """
        class_names = None if class_names is None else tuple(map(str, class_names))  # a file keeps texts
        given = whole_or_text(plain_array("labels", labels))
        kept = kept_samples(given, unlabelled, class_names)
        numbers, names = classes_of(given if kept is None else given[kept], class_names)
        pictures = None if images is None else _kept("images", plain_array("images", images), kept)
        return cls(
            embeddings=_rows("embeddings", embeddings, kept),
            labels=torch.from_numpy(numbers),
            class_names=names,
            name=name,
            features=None if features is None else _rows("features", features, kept),
            shown=None if shown is None else _kept("shown", tuple(map(str, shown)), kept),
            images=None if pictures is None else _pictures(pictures, len(numbers)),
            samples=samples if kept is None else None,
            model=model,
        )

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        labels: str | Path | None = None,
        name: str | None = None,
        unlabelled: Unlabelled = "refuse",
    ) -> "EmbeddingSet":
        """Read what `save` wrote, or arrays that somebody else made. Nothing in the file is run.

        Args:
            path: an `.npz` with `embeddings`, `x` or `features`, and `labels` or `y`; or an `.npy` with (n, d).
                `shown` (texts) and `images` (uint8, any size) are what a report shows of a sample, if they are there.
            labels: where they lie in a file of their own: an `.npy`, or a text file with one label a line.
            name: a name for the set instead of the file's.
            unlabelled: what the number −1 as a label means, as in `from_arrays`.
        """
        found = read_arrays(Path(path), None if labels is None else Path(labels))
        # What somebody else calls images may be no pictures: no reason to refuse the embeddings.
        images = None if found.images is None else thumbnails_of(found.images, found.labels.size)
        try:
            return cls.from_arrays(
                found.embeddings,
                found.labels,
                class_names=found.class_names,
                name=name or found.name,
                features=found.features,
                shown=found.shown,
                images=images,
                samples=found.samples,
                model=found.model,
                unlabelled=unlabelled,
            )
        except InputError as error:  # of several files one is meant
            raise InputError(f"{path}: {error}") from error

    def save(self, path: str | Path) -> Path:
        """Write one `.npz`. The file appears whole or not at all; an older one stays until the new one is complete."""
        path = Path(path)
        if path.suffix != ".npz":
            raise OptionError(f"path must end in .npz: got {path}.")
        arrays = {
            "embeddings": plain_array("embeddings", self.embeddings),
            "labels": self.labels.cpu().numpy(),
            "class_names": np.array(self.class_names, dtype=np.str_),
            "name": np.array(self.name, dtype=np.str_),
        }
        if self.features is not None:
            arrays["features"] = plain_array("features", self.features)
        if self.shown is not None:
            # As an array of texts every one would take the room of the longest.
            arrays["shown"] = np.frombuffer(json.dumps(self.shown).encode(), dtype=np.uint8)
        if self.images is not None:
            arrays["images"] = self.images.numpy()
        for name, identity in (("samples", self.samples), ("model", self.model)):
            if identity is not None:
                arrays[name] = np.array(identity, dtype=np.str_)
        path.parent.mkdir(parents=True, exist_ok=True)
        size = sum(array.nbytes for array in arrays.values())
        with replaced(path, size) as beside, beside.open("wb") as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # its `allow_pickle` catches the dictionary
            file.flush()
            os.fsync(file.fileno())
        return path

    def subset(self, indices: object) -> "EmbeddingSet":
        """The samples at `indices` (integers), in that order; or those at which a mask is true, one value a sample.

        They may be a tensor, an array or a list.
        """
        chosen = as_indices(indices, len(self))
        there = chosen.to(self.embeddings.device)
        return replace(
            self,
            embeddings=self.embeddings[there],
            labels=self.labels[there],
            features=None if self.features is None else self.features[there],
            shown=None if self.shown is None else tuple(self.shown[place] for place in chosen.tolist()),
            images=None if self.images is None else self.images[chosen],
            samples=None,
        )

    def to(self, device: str | torch.device) -> "EmbeddingSet":
        """The same on another device, but for the pictures; evaluation runs where its sets are."""
        features = None if self.features is None else self.features.to(device)
        return replace(self, embeddings=self.embeddings.to(device), labels=self.labels.to(device), features=features)

    def class_counts(self) -> dict[str, int]:
        """Samples of each class, by name."""
        counts = torch.bincount(self.labels, minlength=len(self.class_names)).tolist()
        return dict(zip(self.class_names, counts, strict=True))

    def with_classes(self, class_names: Iterable[object]) -> "EmbeddingSet":
        """The same samples, numbered by another list of classes: two sets agree once they share one list."""
        names = tuple(map(str, class_names))
        if names == self.class_names:
            return self
        present = [name for name, count in self.class_counts().items() if count]
        missing = [name for name in present if name not in names]
        if missing:
            shown = ", ".join(map(repr, missing[:5])) + (", …" if len(missing) > 5 else "")
            raise InputError(
                f"every class of {self.name!r} must be among the {len(names)} classes it is compared with: "
                f"{len(missing)} {'is' if len(missing) == 1 else 'are'} not ({shown}). Leave out the samples of other "
                "classes; sincere.geometry.out_of_class says how far these are from the known ones."
            )
        places = {name: place for place, name in enumerate(names)}
        table = torch.tensor([places.get(name, -1) for name in self.class_names], device=self.labels.device)
        return replace(self, labels=table[self.labels], class_names=names)


def _check_rows(name: str, rows: object) -> None:
    if not isinstance(rows, Tensor) or rows.dtype != torch.float32 or rows.ndim != 2 or rows.shape[1] == 0:
        came = f"{rows.dtype} of shape {shape_of(rows)}" if isinstance(rows, Tensor) else type(rows).__name__
        raise InputError(
            f"{name} must be a float32 tensor of shape (n, d): got {came}. EmbeddingSet.from_arrays(...) converts."
        )
    check_finite(name, rows)


def _check_images(images: object, samples: int) -> None:
    wanted = f"uint8 of shape ({samples}, h, w) or ({samples}, h, w, 3) on the CPU, no side above {SIDE}"
    if not isinstance(images, Tensor):
        raise InputError(f"images must be {wanted}: got {type(images).__name__}.")
    shape = tuple(images.shape)
    fits = len(shape) == 3 or (len(shape) == 4 and shape[3] == 3)
    if images.dtype != torch.uint8 or images.is_cuda or not fits or shape[0] != samples or max(shape[1:3]) > SIDE:
        raise InputError(
            f"images must be {wanted}: got {images.dtype} of shape {shape_of(images)}. "
            "EmbeddingSet.from_arrays(...) makes thumbnails of larger ones."
        )


def _pictures(images: np.ndarray, samples: int) -> Tensor:
    found = thumbnails_of(images, samples)
    if found is None:
        raise InputError(
            f"images must be uint8, ({samples}, h, w) or with 1, 3 or 4 channels last or first: "
            f"got {images.dtype} of shape {images.shape}."
        )
    return found


def _rows(name: str, values: object, kept: np.ndarray | None) -> Tensor:
    rows = float_rows(name, plain_array(name, values), tensor=isinstance(values, Tensor))
    return torch.from_numpy(_kept(name, rows, kept))


def _kept(name: str, values: Samples, kept: np.ndarray | None) -> Samples:
    """What belongs to the samples that are kept."""
    if kept is None:
        return values
    if np.ndim(values) == 0 or len(values) != len(kept):
        raise InputError(
            f"{name} must hold one a label, {len(kept)}: got {len(values) if np.ndim(values) else 'none'}."
        )
    return tuple(compress(values, kept)) if isinstance(values, tuple) else np.compress(kept, values, axis=0)
