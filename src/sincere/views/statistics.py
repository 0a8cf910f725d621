"""Mean and deviation of the training inputs, which every view and every later embedding is normalised by."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, get_args

import torch
from torch import Tensor

from sincere.checks import check_choice, check_finite, shape_of
from sincere.errors import InputError, OptionError
from sincere.types import Kind


@dataclass(frozen=True)
class Statistics:
    """Per channel of images (as shares of 255), per feature of arrays; empty for text and sound.

    >>> Statistics.of(torch.tensor([[1.0, 5.0], [3.0, 5.0]]), kind="array")
    Statistics(mean=(2.0, 5.0), std=(1.0, 1.0))

    A channel or feature that never changes has deviation 1 here, so that normalising it gives 0.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if len(self.mean) != len(self.std):
            raise OptionError(
                f"mean and std must be of one length: got {len(self.mean)} and {len(self.std)} numbers. "
                "Statistics.of(inputs, kind=...) computes both."
            )
        if not all(map(isfinite, self.mean)):
            raise OptionError(f"mean must be finite: got {self.mean}. Look for NaN or infinity in the data.")
        if not all(0 < value < float("inf") for value in self.std):
            raise OptionError(f"std must be positive and finite: got {self.std}. Use 1 where a feature never changes.")

    @classmethod
    def of(cls, inputs: Tensor, *, kind: Kind) -> "Statistics":
        """Those of these inputs: uint8 images (n, c, h, w), or float arrays (n, features)."""
        check_choice("kind", kind, get_args(Kind))
        if kind == "image":
            return cls._of_images(inputs)
        if kind == "array":
            return cls._of_arrays(inputs)
        return cls()

    @classmethod
    def _of_images(cls, images: Tensor) -> "Statistics":
        if images.dtype != torch.uint8 or images.ndim != 4 or images.numel() == 0:
            raise InputError(
                f"images must be uint8 of shape (n, c, h, w), at least one: got {images.dtype}, {shape_of(images)}."
            )
        levels = torch.arange(256, dtype=torch.float64) / 255
        mean, std = [], []
        for channel in images.unbind(1):
            # How often each level occurs holds all that is needed, exactly, and never makes a float of the pixels.
            counts = torch.bincount(channel.flatten(), minlength=256).cpu().double()
            middle = (counts * levels).sum() / counts.sum()
            mean.append(float(middle))
            deviation = float((counts * (levels - middle) ** 2).sum() / counts.sum()) ** 0.5
            std.append(_or_one(deviation, float(middle), torch.float32))
        return cls(tuple(mean), tuple(std))

    @classmethod
    def _of_arrays(cls, arrays: Tensor) -> "Statistics":
        if not arrays.is_floating_point() or arrays.ndim != 2 or arrays.numel() == 0:
            raise InputError(
                "arrays must be floating-point of shape (n, features), at least one row and one feature: "
                f"got {arrays.dtype}, {shape_of(arrays)}."
            )
        check_finite("arrays", arrays)
        doubles = arrays.double()
        # By a power of two, which rounds nothing: squares of very large or small float64 numbers leave its range.
        exponents = torch.frexp(doubles.abs().amax(dim=0)).exponent.clamp(-1000, 1000).tolist()
        powers = torch.tensor([2.0**exponent for exponent in exponents], dtype=torch.float64, device=arrays.device)
        std, mean = ((found * powers).tolist() for found in torch.std_mean(doubles / powers, dim=0, correction=0))
        return cls(tuple(mean), tuple(_or_one(*pair, arrays.dtype) for pair in zip(std, mean, strict=True)))

    def to_json(self) -> dict[str, list[float]]:
        """What `json.dumps` takes; every digit is kept."""
        return {"mean": list(self.mean), "std": list(self.std)}

    @classmethod
    def from_json(cls, record: Mapping[str, Any]) -> "Statistics":
        """The inverse of `to_json`."""
        if set(record) != {"mean", "std"}:
            raise InputError(f"a record of statistics must hold 'mean' and 'std': got {sorted(record)}.")
        return cls(tuple(map(float, record["mean"])), tuple(map(float, record["std"])))


def _or_one(std: float, mean: float, dtype: torch.dtype) -> float:
    """1 where the deviation is rounding alone, which grows with the mean; a small unit of measurement is none, down to
    what the numbers' own precision can divide by, float32 at least."""
    least = torch.finfo(torch.float64 if dtype == torch.float64 else torch.float32).tiny
    return std if std > 1e-12 * abs(mean) and std >= least else 1.0
