"""TrivialAugment: one operation of fourteen a view, at one of 31 strengths. Images are (n, c, h, w) in [0, 1].

A batch holds every operation at once and nothing may branch on data, so each image passes through all of them, chosen
by masks. Fourteen passes would be wasteful, and three suffice, each of which leaves the images of the others as they
are: five operations blend with another image, three look each of 256 levels up in a table, five move pixels.
"""

import math
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from sincere.views.colour import check_colours, grey
from sincere.views.stages import Shape, Stage, check_share, over, whole

# In the order of torchvision's TrivialAugmentWide, as are the ranges below.
OPERATIONS = (
    "identity",
    "shear_x",
    "shear_y",
    "translate_x",
    "translate_y",
    "rotate",
    "brightness",
    "colour",
    "contrast",
    "sharpness",
    "posterize",
    "solarize",
    "autocontrast",
    "equalize",
)
STRENGTHS = 31
SHEAR, TRANSLATE, ROTATE, BLEND = 0.99, 32, 135, 0.99  # the largest of each, either way; pixels and degrees
BITS, TOP = 6, 255  # the most bits that posterize drops, the highest of the 256 levels

# Pixels. A turn by 45° maps a whole diagonal onto the borders between pixels, where rounding would decide, and
# otherwise on each device. This decides first; it is small beside the 1/2000 that shears come near to a border.
NUDGE = 1e-4


class Choices(NamedTuple):
    """What the numbers of n views stand for, each (n,)."""

    operation: Tensor  # a place in OPERATIONS
    strength: Tensor  # 0, 1, … 30
    sign: Tensor  # −1 or 1

    @classmethod
    def of(cls, numbers: Tensor, p: float = 1.0) -> "Choices":
        """Each operation, strength and sign as likely as any other, from three numbers a view (n, 3); with p below 1
        the other 1 − p of the views have the identity."""
        # Below p a number is spread over the operations again: no second one is needed for whether there is any.
        among = numbers[:, 0] / p if p else torch.ones_like(numbers[:, 0])
        operation = torch.where(among < 1, whole(among, len(OPERATIONS)), OPERATIONS.index("identity"))
        return cls(operation, whole(numbers[:, 1], STRENGTHS), 2 * whole(numbers[:, 2], 2) - 1)

    def are(self, *names: str) -> Tensor:
        """Whether it is one of these operations."""
        return reduce(or_, (self.operation == OPERATIONS.index(name) for name in names))

    def signed(self, largest: float, *names: str) -> Tensor:
        """The strength with its sign, from −largest to largest; 0 for views that have none of these operations."""
        return self.are(*names) * self.sign * (self.strength * largest / (STRENGTHS - 1))


@dataclass(frozen=True)
class TrivialAugment(Stage):
    """One operation a view, drawn uniformly from fourteen, with a strength drawn uniformly from the wide ranges.

    *Source:* Müller and Hutter, 2021, arXiv 2103.10158, Section 3, with the operations and ranges of torchvision's
    TrivialAugmentWide. There is nothing to tune but `p`, the share of the views that it touches: all of them in the
    paper, fewer for small networks and short runs. Pixels that come from outside are black, and moved ones the nearest.

    *Differs from* torchvision: blends and autocontrast are not rounded to 256 levels, as everywhere in this package;
    posterize, solarize and equalize are defined on levels and give the same ones. The authors' code has brightness,
    colour, contrast and sharpness at 31 factors from 0.01 to 2, here and in torchvision they are 1 ± 0.99 · k/30.
    """

    name: ClassVar[str] = "trivial"
    p: float = 1.0

    def __post_init__(self) -> None:
        check_share("p", self.p)

    def numbers(self, shape: Shape) -> int:
        check_colours(shape, "trivial")
        return 3  # operation, strength, sign

    def __call__(self, samples: Tensor, numbers: Tensor) -> Tensor:
        choices = Choices.of(numbers, self.p)
        return moved(looked_up(blended(samples, choices), choices), choices)


def blended(images: Tensor, choices: Choices) -> Tensor:
    """Brightness, colour, contrast, sharpness and autocontrast: image + weight · (other − image), cut to [0, 1].

    With a factor f the weight is 1 − f, and the other image is black, the luma, its mean, or a smoothed one.
    Autocontrast stretches each channel's colours from [low, high] over [0, 1]. That, too, is a blend: with the one
    colour that it leaves where it is, by the factor 1 / (high − low).
    """
    low, high = ((extreme * TOP).round() / TOP for extreme in images.flatten(2).aminmax(dim=2))
    span = high - low
    stretched = over(choices.are("autocontrast"), span) & (span > 0)  # one colour has no contrast: left alone
    fixed = (low / (1 - span)).masked_fill(span >= 1, 0.0)
    weight = -choices.signed(BLEND, "brightness", "colour", "contrast", "sharpness")
    weight = torch.where(stretched, 1 - 1 / span, over(weight, span))

    luma = grey(images)
    mean = choices.are("contrast") * luma.mean(dim=(1, 2, 3))
    other = torch.where(stretched, fixed, over(mean, span))[..., None, None]
    other = torch.where(over(choices.are("colour"), images), luma, other)
    other = torch.where(over(choices.are("sharpness"), images), smoothed(images), other)
    return torch.lerp(images, other, weight[..., None, None].to(images.dtype)).clamp_(0, 1)


def smoothed(images: Tensor) -> Tensor:
    """Each pixel averaged with its eight neighbours, itself five times as heavy as each; the edges as they are."""
    if min(images.shape[2:]) < 3:
        return images
    # Sums along the columns, then along the rows: several times as fast on a CPU as a convolution or a pooling.
    tall = images[:, :, :-2] + images[:, :, 1:-1] + images[:, :, 2:]
    nine = (tall[..., :-2] + tall[..., 1:-1]).add_(tall[..., 2:])
    result = images.clone()
    result[:, :, 1:-1, 1:-1].mul_(4 / 13).add_(nine, alpha=1 / 13)
    return result


def looked_up(images: Tensor, choices: Choices) -> Tensor:
    """Posterize, solarize and equalize: each level 0, 1, … 255 of an image replaced by that of a table."""
    levels = (images * TOP).round().clamp_(0, TOP).long().flatten(2)
    value = torch.arange(TOP + 1, device=images.device)
    dropped = (choices.strength * (BITS / (STRENGTHS - 1))).round().long().reshape(-1, 1, 1)
    threshold = (TOP - choices.strength * (TOP / (STRENGTHS - 1))).reshape(-1, 1, 1)
    solarized = torch.where(value >= threshold, TOP - value, value)
    table = torch.where(over(choices.are("posterize"), levels), (value >> dropped) << dropped, solarized)
    table = torch.where(over(choices.are("equalize"), levels), equalizing(levels), table)
    found = (table.to(images.dtype) / TOP).expand(*levels.shape[:2], -1).gather(2, levels).reshape(images.shape)
    changed = choices.are("posterize", "solarize", "equalize")
    return torch.where(over(changed, images), found, images)


def equalizing(levels: Tensor) -> Tensor:
    """The tables (n, c, 256) that give each channel about as many pixels of every level, for levels (n, c, pixels).

    A level becomes the number of pixels below it over a step, rounded; the step is a 255th of the pixels that are not
    of the highest level there is. With fewer than 255 of those nothing changes: Pillow's ImageOps.equalize.
    """
    n, c, _ = levels.shape
    rows = torch.arange(n * c, device=levels.device).reshape(n, c, 1)
    # One long axis, since that is where scatter_add has a deterministic form on a GPU, for those who insist on one.
    places = (levels + rows * (TOP + 1)).flatten()
    one = torch.ones((), dtype=torch.int32, device=levels.device)
    counts = torch.zeros(n * c * (TOP + 1), dtype=torch.int32, device=levels.device)
    counts = counts.scatter_add(0, places, one.expand(len(places))).reshape(n, c, TOP + 1)
    below = counts.cumsum(dim=2) - counts
    step = below.masked_fill(counts == 0, 0).amax(dim=2, keepdim=True) // TOP
    rounded = ((below + step // 2) // step.clamp(min=1)).clamp(max=TOP)
    return torch.where(step > 0, rounded, torch.arange(TOP + 1, device=levels.device))


def moved(images: Tensor, choices: Choices) -> Tensor:
    """Shears from the top left corner, shifts by whole pixels and turns about the middle: one affine map of all."""
    n, c, h, w = images.shape
    angle = choices.signed(math.radians(ROTATE), "rotate")
    cos, sin = angle.cos(), angle.sin()
    # A little further, so that no device rounds 16 pixels to something below and cuts them to 15.
    across, down = (choices.signed(TRANSLATE + 1e-3, name).trunc() for name in ("translate_x", "translate_y"))
    # Where the pixel at (x, y) comes from, with places counted from the corner: a pixel's middle is at a half.
    x, y = torch.arange(w, device=images.device) + 0.5, (torch.arange(h, device=images.device) + 0.5).unsqueeze(1)
    start_x = (1 - cos) * (w / 2) + sin * (h / 2) - across
    start_y = (1 - cos) * (h / 2) - sin * (w / 2) - down
    columns = _affine(x, y, cos, choices.signed(SHEAR, "shear_x") - sin, start_x)
    rows = _affine(x, y, choices.signed(SHEAR, "shear_y") + sin, cos, start_y)
    inside = (columns >= 0) & (columns < w) & (rows >= 0) & (rows < h)
    places = rows.clamp_(0, h - 1) * w + columns.clamp_(0, w - 1)
    found = images.flatten(2).gather(2, places.flatten(1).unsqueeze(1).expand(n, c, -1)).reshape(n, c, h, w)
    return found.masked_fill_(~inside.unsqueeze(1), 0.0)


def _affine(x: Tensor, y: Tensor, by_x: Tensor, by_y: Tensor, start: Tensor) -> Tensor:
    """The whole pixel (n, h, w) that by_x · x + by_y · y + start lies in."""
    by_x, by_y, start = (value.reshape(-1, 1, 1) for value in (by_x, by_y, start))
    return (by_x * x + by_y * y + (start + NUDGE)).floor().long()
