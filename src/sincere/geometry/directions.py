"""Embeddings as the losses see them: unit vectors, in class order."""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor

from sincere.checks import check_choice, check_class_range, check_finite, check_labels, shape_of
from sincere.embeddings.embedding_set import EmbeddingSet
from sincere.errors import InputError
from sincere.evaluate.classifiers import vectors_of
from sincere.evaluate.inputs import check_is_set
from sincere.evaluate.options import Vectors
from sincere.losses.backends.class_layout import ClassLayout, layout_of
from sincere.losses.similarity import unit_rows


@dataclass(frozen=True)
class Directions:
    """Unit rows that stand class by class."""

    rows: Tensor  # float32 (n, d); a zero vector stays zero
    numbers: Tensor  # int64 (n,): the class of each row, as the set numbers them
    layout: ClassLayout  # blocks of rows that end where classes end; its own classes count only those present
    classes: int  # of the set, with or without samples

    @property
    def counts(self) -> Tensor:
        """Samples of each class, int64 (classes,)."""
        return torch.bincount(self.numbers, minlength=self.classes)


def directions_of(found: EmbeddingSet) -> Directions:
    """The set's unit vectors, sorted by class."""
    layout = layout_of(found.labels)
    rows = unit_rows(found.embeddings)[layout.order]
    return Directions(rows, found.labels[layout.order], layout, len(found.class_names))


def vectors_on(found: EmbeddingSet, on: Vectors) -> Tensor:
    """Embeddings as unit vectors, because losses ignore their length; or features as they are, as a head reads them."""
    check_choice("on", on, get_args(Vectors))
    vectors = vectors_of(found, on)
    return unit_rows(vectors) if on == "embeddings" else vectors


def class_sums(rows: Tensor, labels: Tensor, *, classes: int) -> Tensor:
    """Σ of the rows of each class, float64 (classes, d)."""
    sums = torch.zeros(classes, rows.shape[1], dtype=torch.float64, device=rows.device)
    return sums.index_add_(0, labels, rows.double())


def class_means(embeddings: Tensor, labels: Tensor, *, classes: int) -> Tensor:
    """ζ_c, the mean of z/‖z‖ over the samples of class c: float64 (classes, d), NaN for a class without samples.

    It is not scaled back to the sphere: its length says how tight the class is. A zero vector has no direction, and
    counts as zero.

    >>> class_means(torch.tensor([[2.0, 0.0], [0.0, 3.0], [0.0, 1.0]]), torch.tensor([0, 0, 1]), classes=2).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    if not isinstance(embeddings, Tensor) or embeddings.ndim != 2:
        came = shape_of(embeddings) if isinstance(embeddings, Tensor) else type(embeddings).__name__
        raise InputError(f"embeddings must be a tensor of shape (n, d): got {came}.")
    check_finite("embeddings", embeddings)
    check_labels("labels", labels, embeddings.shape[0], "embeddings", embeddings.device)
    if labels.ndim != 1 or labels.dtype == torch.bool:
        raise InputError(
            f"labels must hold one class number per embedding, ({embeddings.shape[0]},): got {labels.dtype}, "
            f"{shape_of(labels)}."
        )
    labels = labels.long()
    if labels.numel():
        check_class_range("labels", int(labels.min()), int(labels.max()), classes)
    sums = class_sums(unit_rows(embeddings), labels, classes=classes)
    return sums / torch.bincount(labels, minlength=classes).unsqueeze(1)


def check_not_empty(found: EmbeddingSet) -> None:
    """Refuse an empty set: most figures are means."""
    check_is_set("what geometry measures", found)
    if len(found) == 0:
        raise InputError(f"geometry needs at least one sample: {found.name!r} is empty.")


def cosines_across(vectors: Tensor) -> Tensor:
    """Cosine of every two rows, exactly symmetric; 0 with a zero row."""
    unit = unit_rows(vectors)
    cosines = (unit @ unit.T).clamp_(-1, 1)
    return (cosines + cosines.T) / 2


def cells(matrix: Tensor) -> tuple[tuple[float | None, ...], ...]:
    """A matrix as nested tuples, NaN as None."""
    return tuple(tuple(None if value != value else value for value in row) for row in matrix.tolist())


def spread(values: Tensor) -> float | None:
    """Standard deviation over mean, 0 for equal values; None without a value or with mean zero."""
    mean = float(values.mean()) if values.numel() else 0.0
    return float(values.std(correction=0)) / mean if mean else None
