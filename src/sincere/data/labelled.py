"""Labelled samples in memory: what every reader returns and everything after it takes."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import get_args

import torch
from torch import Tensor

from sincere.checks import check_choice, check_class_range, check_finite, check_room, shape_of
from sincere.data.conversion import as_indices
from sincere.errors import InputError
from sincere.tables import amount
from sincere.types import Kind

# For each kind of data: the type of the inputs, and the names of their dimensions.
LAYOUT: dict[str, tuple[torch.dtype, tuple[str, ...]]] = {
    "image": (torch.uint8, ("n", "channels", "height", "width")),
    "array": (torch.float32, ("n", "features")),
    "text": (torch.int32, ("n", "words", "pieces")),
    "sound": (torch.float32, ("n", "samples")),
}


@dataclass(frozen=True)
class Form:
    """The form that every sample of a data set has been brought to. Saved with a model, it makes new data look alike.

    shape: one sample's shape: (channels, height, width), (features,), (words, pieces) or (samples,).
    sample_rate: samples per second, for sound.
    buckets: text's pieces are numbered 1 to buckets − 1.
    columns: a table's names of the features, by which another table's columns are put into this order.
    """

    kind: Kind
    shape: tuple[int, ...]
    sample_rate: int | None = None
    buckets: int | None = None
    columns: tuple[str, ...] | None = field(default=None, compare=False, repr=False)  # arrays without names fit too

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        object.__setattr__(self, "shape", tuple(self.shape))  # JSON makes a list of it
        dimensions = LAYOUT[self.kind][1][1:]
        if len(self.shape) != len(dimensions) or min(self.shape) < 1:
            raise InputError(f"shape of {self.kind} must be ({', '.join(dimensions)}): got {self.shape}.")
        if (self.kind == "sound") != (self.sample_rate is not None):
            raise InputError(f"sample_rate belongs to sound, and sound needs it: got {self.sample_rate}, {self.kind}.")
        if (self.kind == "text") != (self.buckets is not None):
            raise InputError(f"buckets belong to text, and text needs them: got {self.buckets}, {self.kind}.")
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
            if self.kind != "array" or len(self.columns) != self.shape[0]:
                raise InputError(
                    f"columns must name each feature of an array: got {len(self.columns)} names for {self.shape}, "
                    f"{self.kind}."
                )


def check_room_for(samples: int, form: Form, advice: str) -> None:
    """Refuse samples that in this form have no room in memory, before it is taken."""
    needed = samples * math.prod(form.shape) * LAYOUT[form.kind][0].itemsize
    shape = "×".join(map(str, form.shape))
    check_room(needed, f"{amount(samples, 'sample')} of {form.kind}, {shape}", advice)


@dataclass(frozen=True, eq=False)
class LabelledData:
    """Samples and their classes.

    inputs: image: uint8 (n, channels, height, width); array: float32 (n, features);
        text: int32 (n, words, pieces), numbers of a word's pieces, 0 for none (see `hash_texts`);
        sound: float32 (n, samples) in [−1, 1], zeros after the end.
    labels: int64 (n,), 0 to len(class_names) − 1.
    shown: what a person would want to see of each sample: its text, its file's path.
    sample_rate, buckets, columns: of sound, of text and of a table, see `Form`.

    >>> data = LabelledData(torch.eye(3), torch.tensor([0, 1, 1]), ("cat", "dog"), "array", "pets")
    >>> len(data), data.class_counts().tolist(), data.subset([1, 2]).labels.tolist()
    (3, [1, 2], [1, 1])
    >>> data
    LabelledData('pets': array, 3 samples of 2 classes, torch.float32 (3, 3))
    """

    inputs: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    kind: Kind
    name: str
    shown: tuple[str, ...] | None = None
    sample_rate: int | None = None
    buckets: int | None = None
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        check_choice("kind", self.kind, get_args(Kind))
        dtype, dimensions = LAYOUT[self.kind]
        if self.inputs.dtype != dtype or self.inputs.ndim != len(dimensions):
            raise InputError(
                f"inputs of {self.kind} data must be {dtype} ({', '.join(dimensions)}): "
                f"got {self.inputs.dtype} {shape_of(self.inputs)}."
            )
        samples = len(self.inputs)
        if self.labels.dtype != torch.int64 or self.labels.shape != (samples,):
            raise InputError(
                f"labels must be torch.int64 ({samples},), one class per sample: "
                f"got {self.labels.dtype} {shape_of(self.labels)}."
            )
        if self.shown is not None and len(self.shown) != samples:
            raise InputError(f"shown must have one text per sample: expected {samples}, got {len(self.shown)}.")
        self._check_classes()
        _ = self.form  # checks sample_rate, buckets and columns
        if self.inputs.is_floating_point():
            check_finite(f"inputs of {self.name}", self.inputs)

    def _check_classes(self) -> None:
        if len(set(self.class_names)) != len(self.class_names):
            raise InputError(f"class_names must differ from one another: got {self.class_names}.")
        if len(self.labels):
            check_class_range("labels", int(self.labels.min()), int(self.labels.max()), len(self.class_names))

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        """What it is, not what is in it: a notebook would print fifty thousand file names."""
        classes = f"{amount(len(self), 'sample')} of {amount(len(self.class_names), 'class', 'classes')}"
        return f"LabelledData({self.name!r}: {self.kind}, {classes}, {self.inputs.dtype} {shape_of(self.inputs)})"

    @property
    def form(self) -> Form:
        """What new samples have to be brought to, to go where these go."""
        return Form(self.kind, tuple(self.inputs.shape[1:]), self.sample_rate, self.buckets, self.columns)

    def class_counts(self) -> Tensor:
        """Number of samples of each class, (classes,)."""
        return torch.bincount(self.labels, minlength=len(self.class_names))

    def subset(self, indices: Tensor | Sequence[int] | Sequence[bool]) -> "LabelledData":
        """The samples at `indices`, in that order, or those at which a mask is true; classes keep their numbers."""
        chosen = as_indices(indices, len(self))
        shown = None if self.shown is None else tuple(self.shown[i] for i in chosen.tolist())
        chosen = chosen.to(self.labels.device)
        return replace(self, inputs=self.inputs[chosen], labels=self.labels[chosen], shown=shown)

    def to(self, device: torch.device | str) -> "LabelledData":
        """The same data on another device."""
        return replace(self, inputs=self.inputs.to(device), labels=self.labels.to(device))


@dataclass(frozen=True, eq=False)
class Splits:
    """Data to train on, to choose by, and to judge by.

    validation: None where no share was asked for.
    note: what was skipped, cut or odd while reading, in words; show it to the user.
    """

    train: LabelledData
    validation: LabelledData | None
    test: LabelledData
    note: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, part in (("validation", self.validation), ("test", self.test)):
            if part is None:
                continue
            if part.form != self.train.form:
                raise InputError(f"{name} must have the form of train, {self.train.form}: got {part.form}.")
            if part.class_names != self.train.class_names:
                raise InputError(
                    f"{name} must have the classes of train, {self.train.class_names}: got {part.class_names}."
                )
