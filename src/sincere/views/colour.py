"""Stages that change colours: jitter, greyscale, blur. Images are (n, c, h, w) in [0, 1], of one or three channels."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from sincere.errors import InputError, OptionError
from sincere.views.resampling import blur_weights, resample
from sincere.views.stages import Shape, Stage, between, check_at_least, check_range, check_share, over

# ITU-R 601-2 luma, to the digits that torchvision uses; Pillow's agree to four.
RED, GREEN, BLUE = 0.2989, 0.587, 0.114


def grey(images: Tensor) -> Tensor:
    """Luma (n, 1, h, w)."""
    if images.shape[1] == 1:
        return images
    red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
    return RED * red + GREEN * green + BLUE * blue


def blend(images: Tensor, keep: Tensor, of_mean: Tensor, of_grey: Tensor) -> Tensor:
    """keep · image + of_mean · (mean of its luma) + of_grey · (its luma), cut to [0, 1], with a weight per image.

    With a factor f: (f, 0, 0) changes brightness, (f, 1 − f, 0) contrast, (f, 0, 1 − f) saturation.
    """
    luma = grey(images)
    mean = luma.mean(dim=(1, 2, 3), keepdim=True)
    added = over(of_mean, images) * mean + over(of_grey, images) * luma
    return (over(keep, images) * images + added).clamp_(0, 1)


def shift_hue(images: Tensor, turns: Tensor) -> Tensor:
    """Hue of HSV moved by a share of the colour circle (n,), value and saturation kept; three channels."""
    red, green, blue = images[:, 0:1], images[:, 1:2], images[:, 2:3]
    value = images.amax(dim=1, keepdim=True)
    chroma = value - images.amin(dim=1, keepdim=True)
    divisor = chroma.masked_fill(~(chroma > 0), 1)
    near_blue = torch.where(value == green, 2 + (blue - red) / divisor, 4 + (red - green) / divisor)
    sixths = torch.where(value == red, (green - blue) / divisor, near_blue) + 6 * over(turns, images)
    # Each channel is the same trapezium over the circle, 120° apart: red starts at 5 sixths, green at 3, blue at 1.
    starts = torch.arange(5, 0, -2, device=images.device).reshape(1, 3, 1, 1)
    place = torch.remainder(sixths + starts, 6)
    return value - chroma * torch.minimum(place, 4 - place).clamp(0, 1)


@dataclass(frozen=True)
class ColourJitter(Stage):
    """Brightness, contrast, saturation and hue changed in random order, with probability `p`.

    As torchvision's ColorJitter: factors of the first three are uniform in [max(0, 1 − strength), 1 + strength]; the
    hue moves by a uniform share of the circle in [−hue, hue]; factors, order and `p` are drawn for each view. Colours
    are not rounded to 256 levels between the four, as Pillow rounds them. Grey images have neither saturation nor hue.
    """

    brightness: float = 0.4
    contrast: float = 0.4
    saturation: float = 0.4
    hue: float = 0.1
    p: float = 0.8
    name: ClassVar[str] = "jitter"

    def __post_init__(self) -> None:
        for name in ("brightness", "contrast", "saturation", "hue"):
            check_at_least(name, getattr(self, name), 0)
        if self.hue > 0.5:
            raise OptionError(f"hue is a share of the colour circle, at most 0.5 either way: got {self.hue}.")
        check_share("p", self.p)

    def numbers(self, shape: Shape) -> int:
        check_colours(shape, "jitter")
        return 9  # four factors, four places in the order, and whether at all

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        applied = numbers[:, 8] < self.p
        factors, turns = self.factors(numbers[:, :4], applied)
        places = places_of(numbers[:, 4:8])
        of_hue = places[:, 3:]
        if self.hue == 0 or samples.shape[1] == 1:
            return self._blends(samples, factors, places, range(4))
        # Hue is dear and the blends are cheap. So hue is computed once, in the middle, with every blend before it or
        # after it as the order wants, and not in each of four places.
        before = self._blends(samples, factors, places.masked_fill(places >= of_hue, -1), range(3))
        return self._blends(shift_hue(before, turns), factors, places.masked_fill(places <= of_hue, -1), range(1, 4))

    def factors(self, numbers: Tensor, applied: Tensor) -> tuple[Tensor, Tensor]:
        """Factors (n, 3) of brightness, contrast and saturation, and turns (n,) of the hue; 1 and 0 leave all as is."""
        strengths = (self.brightness, self.contrast, self.saturation)
        drawn = [between(numbers[:, i], max(0.0, 1 - s), 1 + s) for i, s in enumerate(strengths)]
        factors = torch.stack(drawn, dim=1).masked_fill(~applied.unsqueeze(1), 1.0)
        return factors, between(numbers[:, 3], -self.hue, self.hue).masked_fill(~applied, 0.0)

    def _blends(self, images: Tensor, factors: Tensor, places: Tensor, order: range) -> Tensor:
        """In each place of the order, the blend that each image has there; none leaves the image as it is."""
        for place in order:
            change = (1 - factors).masked_fill(places[:, :3] != place, 0.0)
            images = blend(images, 1 - change.sum(dim=1), change[:, 1], change[:, 2])
        return images


def places_of(numbers: Tensor) -> Tensor:
    """A random permutation a row: each number's rank among the k of its row, (n, k)."""
    mine, other = numbers.unsqueeze(2), numbers.unsqueeze(1)
    index = torch.arange(numbers.shape[1], device=numbers.device)
    earlier = index.unsqueeze(0) < index.unsqueeze(1)  # settles the rare tie
    return ((other < mine) | ((other == mine) & earlier)).sum(dim=2)


@dataclass(frozen=True)
class Greyscale(Stage):
    """Every channel replaced by the luma, with probability `p`."""

    p: float = 0.2
    name: ClassVar[str] = "greyscale"

    def __post_init__(self) -> None:
        check_share("p", self.p)

    def numbers(self, shape: Shape) -> int:
        check_colours(shape, "greyscale")
        return 1

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        return torch.where(over(numbers < self.p, samples), grey(samples), samples)


@dataclass(frozen=True)
class Blur(Stage):
    """A Gaussian blur with probability `p`, its deviation uniform in `deviation` pixels, its kernel odd and about
    `kernel` of the image's side; mirrored at the edges."""

    deviation: tuple[float, float] = (0.1, 2.0)
    kernel: float = 0.1
    p: float = 0.5
    name: ClassVar[str] = "blur"

    def __post_init__(self) -> None:
        check_range("deviation", self.deviation, 1e-3)
        check_share("kernel", self.kernel)
        check_share("p", self.p)

    def numbers(self, shape: Shape) -> int:
        return 2

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        h, w = samples.shape[2:]
        deviation = between(numbers[:, 0], *self.deviation)
        rows, columns = blur_weights(deviation, self.reach(h), h), blur_weights(deviation, self.reach(w), w)
        return torch.where(over(numbers[:, 1] < self.p, samples), resample(samples, rows, columns), samples)

    def reach(self, side: int) -> int:
        """Pixels of the kernel on either side of its middle: at least one, where the image has a second pixel."""
        return min(max(1, round(self.kernel * side / 2)), side - 1)


def check_colours(shape: Shape, stage: str) -> None:
    """Colours are one channel or three."""
    if shape[0] not in (1, 3):
        raise InputError(
            f"{stage} needs images of one channel (grey) or three (red, green, blue): got {shape[0]} channels. "
            f"Leave the stage out: {stage}=False."
        )
