"""Samples that are arrays in memory already: images and features."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.data.labelled import Form, check_room_for
from sincere.data.named_columns import places_of_columns
from sincere.data.options import Settings
from sincere.data.samples import Classes, Note, Rendered, listed
from sincere.errors import InputError
from sincere.tables import amount
from sincere.types import Kind

RESIZED_AT_ONCE = 1024  # images; bounds the float32 copies
KEPT = 100  # roundings that a column's spread must hold, so that its values are told apart
LUMA = (0.299, 0.587, 0.114)  # ITU-R BT.601, as Pillow's conversion to grey


@dataclass(frozen=True, eq=False)
class Ready:
    """Images uint8 (n, c, h, w), or features float32 (n, f).

    columns: the features' names, where they come from a table.
    indexes: those of them that only number the rows, with notes that say so. They are left out, unless the form that
        data which comes later is read in has them: 0 and 1 number two rows, and may be a feature of many.
    going_on: columns that count rows as well, from another number than 0 or 1, as the index of a test table does, which
        goes on where that of the training table ended. They are features, unless the form that is asked for lacks them.
    refused: why no form can be made of these features, though another's may fit them.
    """

    inputs: Tensor
    classes: Classes
    kind: Kind
    shown: tuple[str, ...] | None = None
    columns: tuple[str, ...] | None = None
    indexes: Mapping[str, Note] = field(default_factory=dict)
    going_on: Mapping[str, Note] = field(default_factory=dict)
    refused: str | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.classes):
            raise InputError(
                f"there must be one label per sample: got {amount(len(self.inputs), 'sample')} and "
                f"{amount(len(self.classes), 'label')}."
            )

    def form(self, settings: Settings) -> Form:
        if self.refused is not None:
            raise InputError(self.refused)
        shape = tuple(self.inputs.shape[1:])
        if self.columns is not None:
            columns = tuple(name for name in self.columns if name not in self.indexes)
            return Form(self.kind, (len(columns),), columns=columns)
        if self.kind == "image" and settings.image_size is not None:
            shape = (shape[0], settings.image_size, settings.image_size)
        return Form(self.kind, shape)

    def render(self, form: Form) -> Rendered:
        if self.columns is not None:
            wanted = form.columns or tuple(name for name in self.columns if name not in self.indexes)
            if len(wanted) == form.shape[0]:
                unused = {**self.indexes, **self.going_on}
                notes = tuple(note for name, note in unused.items() if name not in wanted)
                places = places_of_columns(wanted, self.columns, unused, whose="its")
                return Rendered(self.inputs[:, places], notes=notes)
        if tuple(self.inputs.shape[1:]) == form.shape:
            return Rendered(self.inputs)
        if self.kind == "image":
            check_room_for(len(self.inputs), form, "Read fewer at once, or smaller ones: image_size=….")
            return Rendered(fit_images(self.inputs, form.shape))
        raise InputError(f"every sample must have {amount(form.shape[0], 'feature')}: got {self.inputs.shape[1]}.")


def images_from(values: npt.NDArray[np.uint8], what: str) -> Tensor:
    """Images as (n, c, h, w) from (n, h, w), (n, h, w, c) or (n, c, h, w); a fourth channel (alpha) is dropped."""
    if values.ndim == 3:
        values = values[:, None]
    elif values.ndim == 4 and values.shape[3] in (1, 3, 4) and values.shape[1] not in (1, 3):
        values = values.transpose(0, 3, 1, 2)
    if values.ndim != 4 or values.shape[1] not in (1, 3, 4):
        raise InputError(
            f"{what} must hold images as (n, height, width), (n, height, width, 1 or 3) or (n, 1 or 3, height, width): "
            f"got {values.shape}."
        )
    opaque = values[:, : 3 if values.shape[1] == 4 else None]
    return torch.from_numpy(np.require(opaque, requirements=("C", "W")))  # torch shares it, so it must be writable


def fit_images(images: Tensor, shape: tuple[int, ...]) -> Tensor:
    """Images brought to (c, h, w): scaled until they cover it, the rest cut evenly on both sides."""
    fitted = torch.empty((len(images), *shape), dtype=torch.uint8)
    for first in range(0, len(images), RESIZED_AT_ONCE):
        some = images[first : first + RESIZED_AT_ONCE].float()
        some = _with_channels(some, shape[0])
        scale = max(shape[1] / some.shape[2], shape[2] / some.shape[3])
        size = [max(round(side * scale), least) for side, least in zip(some.shape[2:], shape[1:], strict=True)]
        some = F.interpolate(some, size=size, mode="bilinear", antialias=True)
        top, left = (size[0] - shape[1]) // 2, (size[1] - shape[2]) // 2
        some = some[:, :, top : top + shape[1], left : left + shape[2]]
        fitted[first : first + RESIZED_AT_ONCE] = some.round().clamp(0, 255).to(torch.uint8)
    return fitted


def _with_channels(images: Tensor, channels: int) -> Tensor:
    if images.shape[1] == channels:
        return images
    if channels == 1:
        return (images * images.new_tensor(LUMA)[:, None, None]).sum(1, keepdim=True)
    return images.expand(-1, channels, -1, -1)


def features_from(
    values: npt.NDArray[np.generic],
    what: str,
    columns: Sequence[str] | None = None,
    lines: Sequence[int] | None = None,
) -> Tensor:
    """Features as float32 (n, f); refuses NaN and infinity and says where they are."""
    if values.dtype.kind not in "biuf":
        raise InputError(f"{what} must hold numbers: got {values.dtype}.")
    flat = values.reshape(len(values), -1) if values.size else values
    with np.errstate(over="ignore"):  # too large for float32 becomes infinity, which is refused below
        features = np.ascontiguousarray(flat, dtype=np.float32)
    if not features.size:
        raise InputError(f"{what} must have samples with at least one feature each: got shape {values.shape}.")
    bad = ~np.isfinite(features)
    if bad.any():
        huge = np.isfinite(flat[bad]).all()
        places = [
            f"{f'line {lines[row]}' if lines else f'row {row}'} column {repr(columns[column]) if columns else column}"
            for row, column in np.argwhere(bad).tolist()
        ]
        rows = f"{int(bad.any(1).sum()):,} of {len(features):,} rows hold"
        raise InputError(
            f"{what} must lie within ±3.4e38, the range of float32: {rows} more, {listed(places, 5)}. Divide these "
            "columns by a power of ten."
            if huge
            else f"{what} must be finite: {rows} NaN, infinity or a missing value: {listed(places, 5)}. Fill or remove "
            "them."
        )
    return torch.from_numpy(features)


def lost_digits(columns: Mapping[str, npt.NDArray[np.generic]], what: str) -> str | None:
    """What to say of columns that lose in float32 what tells their values apart, as times in seconds since 1970 do."""
    lost = []
    for name, values in columns.items():
        exact = values.astype(np.float64)
        spread = float(np.ptp(exact))
        if 0 < spread < KEPT * float(np.abs(exact - exact.astype(np.float32)).max()):
            lost.append(f"column {name!r} lies between {exact.min():.12g} and {exact.max():.12g}")
    if not lost:
        return None
    return (
        f"{what} must keep their digits in float32, which has seven: {listed(lost, 3)}. Subtract a column's least "
        "value from it, and the same number in data that comes later."
    )
