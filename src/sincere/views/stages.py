"""What a stage of a view is, and how uniform random numbers become its choices.

A stage is a deterministic function of a batch and of numbers between 0 and 1, a row of them for each view. All numbers
of all stages come from one call of one generator, before any stage runs. So the same generator state gives the same
views, a sample's view depends on its own row alone, and everything after the draw can be compiled or captured in a
CUDA graph: there is no generator in it, no branch on data, and nothing that waits for the device.
"""

import sys
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from sincere.checks import is_number, is_whole
from sincere.errors import OptionError

Shape = tuple[int, ...]
CIFAR = 32  # pixels of a side: for images of this size the presets' numbers of pixels are chosen


class Stage(ABC):
    """One random transform of a batch of samples, all at once."""

    name: ClassVar[str]
    # Whether it works on normalised samples, after the others, rather than on samples as they came.
    normalised: ClassVar[bool] = False

    @abstractmethod
    def numbers(self, shape: Shape) -> int:
        """How many uniform numbers a view of a sample of this shape takes."""

    @abstractmethod
    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        """The transformed samples (n, …), given numbers (n, self.numbers(shape)) in [0, 1)."""

    def with_turns(self, numbers: Tensor, turns: Tensor) -> Tensor:
        """The numbers (n, self.numbers(shape)) of views whose turn it is: 0 for a sample's first, 1 for the next, …

        A stage whose choice shall not be random alone changes them here.
        """
        return numbers

    def shape_after(self, shape: Shape) -> Shape:
        """The shape of a sample once this stage is through with it."""
        return shape


def between(numbers: Tensor, low: float, high: float) -> Tensor:
    """Uniform between two bounds."""
    return low + (high - low) * numbers


def whole(numbers: Tensor, choices: Tensor | int) -> Tensor:
    """A whole number from 0 to choices − 1, each as likely, as a float."""
    # The product can round up to `choices` itself, where the number is the largest below one.
    return (numbers * choices).floor().clamp(max=choices - 1)


def gaussian(numbers: Tensor) -> Tensor:
    """Standard normal, by the inverse of its distribution function; within ±5.3, as float32 has no smaller numbers."""
    return 2**0.5 * torch.erfinv((2 * numbers - 1).clamp(min=-1 + 2**-23))


def over(values: Tensor, samples: Tensor) -> Tensor:
    """One value per sample (n,), shaped so that it multiplies samples (n, …)."""
    return values.reshape(-1, *[1] * (samples.ndim - 1))


def pixels_for(shape: Shape, given: int | None, at_cifar: int) -> int:
    """As many pixels as are given; else `at_cifar` for images of 32 pixels and more, and fewer for smaller ones.

    These have as large a share of their shorter side, rounded down: 0 where that is less than one pixel.
    """
    return at_cifar * min(CIFAR, *shape[1:]) // CIFAR if given is None else given


def fewer_pixels(stage: str, shape: Shape, at_cifar: int) -> str:
    """What to do about a stage that was given more pixels than an image of this shape has."""
    fitting = max(1, pixels_for(shape, None, at_cifar))
    if fitting >= min(shape[1:]):
        return f"Leave it out: {stage}=False."
    return f"Choose fewer, {stage}={{'pixels': {fitting}}}, or leave it out, {stage}=False."


def check_share(name: str, value: float) -> None:
    """A probability or a share lies between 0 and 1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise OptionError(f"{name} must lie between 0 and 1: got {value!r}.")


def check_at_least(name: str, value: float, least: float) -> None:
    """A finite number that is not too small."""
    if not is_number(value) or not least <= value <= sys.float_info.max:
        raise OptionError(f"{name} must be a number of at least {least:g}: got {value!r}.")


def check_pixels(name: str, value: object) -> None:
    """A whole number of pixels, at least one."""
    if not is_whole(value) or not 1 <= value <= sys.maxsize:
        raise OptionError(f"{name} must be a whole number of at least 1: got {value!r}.")


def check_range(name: str, value: object, least: float) -> None:
    """A pair (low, high) with least ≤ low ≤ high."""
    pair = value if isinstance(value, (tuple, list)) and len(value) == 2 and all(map(is_number, value)) else None
    if pair is None or not least <= pair[0] <= pair[1] <= sys.float_info.max:
        raise OptionError(f"{name} must be a pair (low, high) with {least:g} ≤ low ≤ high: got {value!r}.")
