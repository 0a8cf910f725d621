"""Stages that move pixels: crops, flips, shifts and small turns."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.checks import check_flag
from sincere.errors import InputError, OptionError
from sincere.tables import amount
from sincere.views.resampling import interval_weights, resample, shift_weights
from sincere.views.stages import (
    Shape,
    Stage,
    between,
    check_at_least,
    check_pixels,
    check_range,
    check_share,
    fewer_pixels,
    over,
    pixels_for,
    whole,
)

TRIES = 10  # torchvision's, after which it takes the middle of the image


@dataclass(frozen=True)
class ResizedCrop(Stage):
    """A random part of the image, stretched over the whole: torchvision's RandomResizedCrop.

    The part's share of the area is uniform in `scale` and the logarithm of its width over its height uniform in
    log `ratio`; sides are rounded to pixels. A part that does not fit is drawn again, ten times in all, and then the
    largest central part of a permitted shape is taken. Bilinear, antialiased where it shrinks. `size` is the side of
    the result; without it the result is as large as the image, and then no part is ever shrunk.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    size: int | None = None
    name: ClassVar[str] = "crop"

    def __post_init__(self) -> None:
        check_range("scale", self.scale, 1e-9)
        check_range("ratio", self.ratio, 1e-9)
        if self.scale[1] > 1:
            raise OptionError(f"scale is a share of the image's area, at most 1: got {self.scale}.")
        if self.size is not None:
            check_pixels("size", self.size)

    def numbers(self, shape: Shape) -> int:
        return 2 * TRIES + 2

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        _, _, h, w = samples.shape
        top, left, height, width = crop_boxes(numbers, (h, w), self.scale, self.ratio).unbind(1)
        rows = interval_weights(top, height, h, self.size or h)
        return resample(samples, rows, interval_weights(left, width, w, self.size or w))

    def shape_after(self, shape: Shape) -> Shape:
        return shape if self.size is None else (shape[0], self.size, self.size)


def crop_boxes(
    numbers: Tensor, size: tuple[int, int], scale: tuple[float, float], ratio: tuple[float, float]
) -> Tensor:
    """Top, left, height and width (n, 4) of a random part of an image of size (h, w), from 22 numbers each."""
    h, w = size
    area = between(numbers[:, :TRIES], *scale) * (h * w)
    shape = between(numbers[:, TRIES : 2 * TRIES], math.log(ratio[0]), math.log(ratio[1])).exp()
    width, height = (area * shape).sqrt().round(), (area / shape).sqrt().round()
    fits = (width > 0) & (width <= w) & (height > 0) & (height <= h)
    first = fits.to(torch.uint8).argmax(dim=1, keepdim=True)
    width, height = width.gather(1, first).squeeze(1), height.gather(1, first).squeeze(1)
    top, left = whole(numbers[:, -2], h - height + 1), whole(numbers[:, -1], w - width + 1)
    found, fallback = fits.any(dim=1), _central_box(h, w, ratio)
    drawn = (top, left, height, width)
    return torch.stack([a.masked_fill(~found, b) for a, b in zip(drawn, fallback, strict=True)], dim=1)


def _central_box(h: int, w: int, ratio: tuple[float, float]) -> tuple[float, float, float, float]:
    height, width = h, w
    if w / h < ratio[0]:
        height = max(1, round(w / ratio[0]))
    elif w / h > ratio[1]:
        width = max(1, round(h * ratio[1]))
    return float((h - height) // 2), float((w - width) // 2), float(height), float(width)


@dataclass(frozen=True)
class Flip(Stage):
    """Left and right exchanged, with probability `p`. Wrong for digits, letters and anything that is read.

    `alternate` lets a sample's views take turns in training, one as it is and the next mirrored, where chance shows one
    side twice in a row half of the time: Jordan, arXiv 2404.00498, Section 3.6. Which side comes first is still random.
    """

    p: float = 0.5
    alternate: bool = False
    name: ClassVar[str] = "flip"

    def __post_init__(self) -> None:
        check_share("p", self.p)
        check_flag("alternate", self.alternate)
        if self.alternate and self.p != 0.5:
            raise OptionError(f"a flip that alternates mirrors every other view, p=0.5: got p={self.p!r}.")

    def with_turns(self, numbers: Tensor, turns: Tensor) -> Tensor:
        return (turns % 2).to(numbers.dtype).unsqueeze(1) * 0.5 if self.alternate else numbers

    def numbers(self, shape: Shape) -> int:
        return 1

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        return torch.where(over(numbers < self.p, samples), samples.flip(-1), samples)


@dataclass(frozen=True)
class ShiftedCrop(Stage):
    """The image moved by up to `pixels` whole pixels either way, mirrored at its edges: reflect, pad and crop.

    Without a number it is 1/8 of the shorter side, rounded down and at most 4 pixels, by which images of 32 are moved.
    """

    pixels: int | None = None
    at_cifar: ClassVar[int] = 4
    name: ClassVar[str] = "shift"

    def __post_init__(self) -> None:
        if self.pixels is not None:
            check_pixels("pixels", self.pixels)

    def numbers(self, shape: Shape) -> int:
        if self.pixels is not None and min(shape[1:]) <= self.pixels:
            raise InputError(
                f"an image must be larger than the {amount(self.pixels, 'pixel')} it is moved by: got "
                f"{shape[1]}×{shape[2]}. " + fewer_pixels(self.name, shape, self.at_cifar)
            )
        return 2

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        pixels = pixels_for(samples.shape[1:], self.pixels, self.at_cifar)
        shift = whole(numbers, 2 * pixels + 1) - pixels
        rows = shift_weights(shift[:, 0], samples.shape[2])
        return resample(samples, rows, shift_weights(shift[:, 1], samples.shape[3]))


@dataclass(frozen=True)
class Warp(Stage):
    """A small turn, change of size, slant and shift, bilinear; what comes from outside the image is black.

    `degrees` either way, `zoom` and `slant` as shares either way, `shift` as a share of the side either way.
    """

    degrees: float = 10.0
    zoom: float = 0.1
    slant: float = 0.1
    shift: float = 0.1
    name: ClassVar[str] = "warp"

    def __post_init__(self) -> None:
        check_at_least("degrees", self.degrees, 0)
        for name in ("zoom", "slant", "shift"):
            check_share(name, getattr(self, name))

    def numbers(self, shape: Shape) -> int:
        return 6

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        drawn = 2 * numbers - 1
        angle = drawn[:, 0] * math.radians(self.degrees)
        wide, high = 1 + self.zoom * drawn[:, 1], 1 + self.zoom * drawn[:, 2]
        slant, shift = self.slant * drawn[:, 3], 2 * self.shift * drawn[:, 4:6]  # the grid runs from −1 to 1
        cos, sin = angle.cos(), angle.sin()
        tall = samples.shape[2] / samples.shape[3]  # that grid makes a square of every image, where turns would slant
        first = torch.stack([wide * cos, tall * (slant - wide * sin), shift[:, 0]], dim=1)
        second = torch.stack([high * sin / tall, high * cos, shift[:, 1]], dim=1)
        # affine_grid warns about a side of one pixel and refuses a batch of none, and there is nothing to turn.
        if min(samples.shape[2:]) < 2 or not len(samples):
            return samples
        grid = F.affine_grid(torch.stack([first, second], dim=1), list(samples.shape), align_corners=False)
        return F.grid_sample(samples, grid, mode="bilinear", padding_mode="zeros", align_corners=False)
