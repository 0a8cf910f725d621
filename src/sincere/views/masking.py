"""Stages that hide a part or add noise: a hole and blank pixels for images, masks and noise for arrays."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sincere.errors import InputError
from sincere.tables import amount
from sincere.views.stages import (
    Shape,
    Stage,
    check_at_least,
    check_pixels,
    check_share,
    fewer_pixels,
    gaussian,
    pixels_for,
    whole,
)


@dataclass(frozen=True)
class Hole(Stage):
    """A square of `pixels` set to the mean colour, anywhere inside the image.

    Without a number it has 3/8 of the shorter side, rounded down and at most 12 pixels, which images of 32 have.
    """

    pixels: int | None = None
    at_cifar: ClassVar[int] = 12
    name: ClassVar[str] = "hole"
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.pixels is not None:
            check_pixels("pixels", self.pixels)

    def numbers(self, shape: Shape) -> int:
        if self.pixels is not None and min(shape[1:]) <= self.pixels:
            raise InputError(
                f"an image must be larger than the hole of {amount(self.pixels, 'pixel')}: got {shape[1]}×{shape[2]}. "
                + fewer_pixels(self.name, shape, self.at_cifar)
            )
        return 2

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        sides, pixels = [], pixels_for(samples.shape[1:], self.pixels, self.at_cifar)
        for size, number in zip(samples.shape[2:], numbers.unbind(1), strict=True):
            start = whole(number, size - pixels + 1).unsqueeze(1)
            pixel = torch.arange(size, device=samples.device)
            sides.append((pixel >= start) & (pixel < start + pixels))
        hidden = sides[0][:, None, :, None] & sides[1][:, None, None, :]
        return samples.masked_fill(hidden, 0.0)


@dataclass(frozen=True)
class BlankPixels(Stage):
    """Each pixel black with probability `share`."""

    share: float = 0.1
    name: ClassVar[str] = "blank"

    def __post_init__(self) -> None:
        check_share("share", self.share)

    def numbers(self, shape: Shape) -> int:
        return shape[1] * shape[2]

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        hidden = numbers.reshape(-1, 1, *samples.shape[2:]) < self.share
        return samples.masked_fill(hidden, 0.0)


@dataclass(frozen=True)
class PixelNoise(Stage):
    """Gaussian noise on every value of an image, of a deviation in [0, 1]'s units."""

    deviation: float = 0.1
    name: ClassVar[str] = "noise"

    def __post_init__(self) -> None:
        check_at_least("deviation", self.deviation, 0)

    def numbers(self, shape: Shape) -> int:
        return math.prod(shape)

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        return samples + self.deviation * gaussian(numbers).reshape(samples.shape)


@dataclass(frozen=True)
class FeatureNoise(Stage):
    """Gaussian noise on every feature, `strength` times the feature's own deviation over the training set."""

    strength: float = 0.1
    name: ClassVar[str] = "noise"
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_at_least("strength", self.strength, 0)

    def numbers(self, shape: Shape) -> int:
        return shape[0]

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        return samples + self.strength * gaussian(numbers)


@dataclass(frozen=True)
class FeatureMask(Stage):
    """Each feature replaced by its mean over the training set with probability `share`."""

    share: float = 0.1
    name: ClassVar[str] = "mask"
    normalised: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_share("share", self.share)

    def numbers(self, shape: Shape) -> int:
        return shape[0]

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        return samples.masked_fill(numbers < self.share, 0.0)
