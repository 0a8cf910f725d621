"""Stages for sound: waveforms (n, samples) in [−1, 1], silence at the end where a clip is short."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sincere.views.stages import (
    Shape,
    Stage,
    between,
    check_at_least,
    check_range,
    check_share,
    gaussian,
)


@dataclass(frozen=True)
class TimeShift(Stage):
    """The clip earlier or later by up to `share` of its length, and faster or slower by up to `speed`.

    A change of speed moves the pitch with it, as a record played too fast; silence comes in from outside.
    """

    share: float = 0.1
    speed: float = 0.1
    name: ClassVar[str] = "shift"

    def __post_init__(self) -> None:
        check_share("share", self.share)
        check_share("speed", self.speed)

    def numbers(self, shape: Shape) -> int:
        return 2

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        length = samples.shape[1]
        delay = between(numbers[:, :1], -self.share, self.share) * length
        rate = between(numbers[:, 1:], 1 - self.speed, 1 + self.speed)
        place = (torch.arange(length, device=samples.device) - delay) * rate
        first = place.floor()
        part = place - first
        return (1 - part) * _at(samples, first) + part * _at(samples, first + 1)


def _at(samples: Tensor, places: Tensor) -> Tensor:
    """Samples at whole places, silence outside."""
    length = samples.shape[1]
    inside = (places >= 0) & (places < length)
    return samples.gather(1, places.clamp(0, length - 1).long()) * inside


@dataclass(frozen=True)
class Gain(Stage):
    """Louder or softer by up to `decibels`."""

    decibels: float = 6.0
    name: ClassVar[str] = "gain"

    def __post_init__(self) -> None:
        check_at_least("decibels", self.decibels, 0)

    def numbers(self, shape: Shape) -> int:
        return 1

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        return samples * 10 ** (between(numbers, -self.decibels, self.decibels) / 20)


@dataclass(frozen=True)
class SoundNoise(Stage):
    """White noise, by a uniform number of `decibels` below the clip's own power where it is not silent."""

    decibels: tuple[float, float] = (15.0, 45.0)
    name: ClassVar[str] = "noise"

    def __post_init__(self) -> None:
        check_range("decibels", self.decibels, -100)

    def numbers(self, shape: Shape) -> int:
        return shape[0] + 1

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        sounding = (samples != 0).sum(dim=1, keepdim=True).clamp(min=1)
        power = samples.square().sum(dim=1, keepdim=True) / sounding
        below = between(numbers[:, -1:], *self.decibels)
        return samples + (power * 10 ** (-below / 10)).sqrt() * gaussian(numbers[:, :-1])


@dataclass(frozen=True)
class TimeMask(Stage):
    """Silence for a uniform time of up to `share` of the clip, anywhere in it."""

    share: float = 0.1
    name: ClassVar[str] = "silence"

    def __post_init__(self) -> None:
        check_share("share", self.share)

    def numbers(self, shape: Shape) -> int:
        return 2

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        place = torch.arange(samples.shape[1], device=samples.device)
        return samples.masked_fill(_interval(place, numbers, self.share), 0.0)


@dataclass(frozen=True)
class FrequencyMask(Stage):
    """A band of frequencies taken out, of a uniform width of up to `share` of all, anywhere.

    On a scale of √frequency, which gives the low frequencies of speech their due without a sample rate to know.
    """

    share: float = 0.1
    name: ClassVar[str] = "band"

    def __post_init__(self) -> None:
        check_share("share", self.share)

    def numbers(self, shape: Shape) -> int:
        return 2

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        if not len(samples):  # which the transform refuses
            return samples
        spectrum = torch.fft.rfft(samples)
        bins = spectrum.shape[1]
        place = torch.arange(bins, device=samples.device).sqrt() * math.sqrt(bins)
        kept = spectrum.masked_fill(_interval(place, numbers, self.share), 0.0)
        quieter: Tensor = torch.fft.irfft(kept, n=samples.shape[1])
        return quieter.masked_fill(_before_and_after(samples), 0.0)


def _before_and_after(samples: Tensor) -> Tensor:
    """Where a clip has not begun or is over: zeros fill it up, and no stage may turn them into sound."""
    sounding, last = (samples != 0).byte(), samples.shape[1] - 1
    first = sounding.argmax(dim=1, keepdim=True)
    end = last - sounding.flip(1).argmax(dim=1, keepdim=True)
    place = torch.arange(last + 1, device=samples.device)
    return (place < first) | (place > end)


def _interval(places: Tensor, numbers: Tensor, share: float) -> Tensor:
    """Which places (size,) lie in a random interval of up to `share` of them, (n, size)."""
    size = places.shape[0]
    width = numbers[:, :1] * share * size
    start = numbers[:, 1:] * (size - width)
    return (places >= start) & (places < start + width)
