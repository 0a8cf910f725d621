"""A short, wide convolutional network for small images, with a first layer that is computed and not learned."""

from typing import Literal, TypeAlias

import torch
from torch import Tensor, nn

from sincere.checks import check_choice, check_finite
from sincere.encoders.pooling import Halving, largest_of_grid
from sincere.encoders.shapes import IMAGE, check_batch, check_shape, check_size
from sincere.errors import InputError, OptionError

Activation: TypeAlias = Literal["gelu", "relu"]
SMALLEST = 9  # pixels of a side, of which the patches leave eight and three halvings one
PATCH = 2  # pixels of a side of what the first layer looks at
PIXELS_AT_ONCE = 1 << 21  # values of images that are cut into patches together
FLOOR = 5e-4  # added to a direction's variance, or directions that hardly vary would be blown up


class ShortCNN(nn.Module):
    """Three stages of two or three 3×3 convolutions each, few and wide, which a GPU runs faster than many thin ones:
    images (b, c, h, w) -> features (b, channels[-1]).

    The first layer turns every patch of 2×2 pixels into its principal components, scaled to variance one, and their
    negatives. It is computed from training images before training (`start_from`) and then stays as it is. Each stage is
    a convolution, halving, then one or two more convolutions, around the last two of which the input goes too. Features
    are the maximum over what is left of the image.

    >>> ShortCNN((3, 32, 32), channels=(16, 32, 64))(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 64])

    Source: the shape, the whitened first layer and the identity at the start are those of Keller Jordan's airbench96
    (arXiv 2404.00498, Section 3), which trains it by cross-entropy.

    Args:
        shape: (channels, height, width) of one image.
        channels: of the three stages.
        depth: convolutions of a stage, 2 or 3; three have a way around the last two.
        activation: behind every normalisation.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        *,
        channels: tuple[int, ...] = (128, 384, 512),
        depth: int = 3,
        activation: Activation = "gelu",
    ) -> None:
        super().__init__()
        check_shape("short_cnn", shape, IMAGE)
        check_choice("activation", activation, ("gelu", "relu"))
        if type(depth) is not int or depth not in (2, 3):
            raise OptionError(f"depth must be 2 or 3 convolutions of a stage: got {depth!r}.")
        if not isinstance(channels, (tuple, list)) or len(channels) != 3:
            raise OptionError(f"channels must be three numbers, one for each stage: got {channels!r}.")
        for number, size in enumerate(channels):
            check_size(f"channels[{number}]", size)
        if min(shape[1:]) < SMALLEST:
            raise OptionError(
                f"short_cnn halves images three times: they must have {SMALLEST} pixels or more, got {shape[1:]}."
            )
        self.channels, self.feature_dim = shape[0], channels[-1]
        directions = PATCH * PATCH * shape[0]
        self.stem = nn.Conv2d(shape[0], 2 * directions, PATCH, bias=False)
        self.stem.weight.requires_grad_(False)
        self.act = nn.GELU() if activation == "gelu" else nn.ReLU()
        sizes = (2 * directions, *channels)
        stages = [Stage(sizes[i], sizes[i + 1], depth, activation) for i in range(3)]
        self.stages = nn.Sequential(*stages)

    @torch.no_grad()
    def start_from(self, images: Tensor) -> None:
        """Compute the first layer from training images (n, c, h, w), prepared as they will come."""
        check_batch("the start of this short_cnn", images, (self.channels, "h", "w"), least=PATCH)
        if not len(images):
            raise InputError("the first layer is computed from training images: got none.")
        check_finite("the images that the first layer is computed from", images)
        self.stem.weight.copy_(whitening(images))

    def forward(self, images: Tensor) -> Tensor:
        check_batch("this short_cnn", images, (self.channels, "h", "w"), least=SMALLEST)
        grid: Tensor = self.stages(self.act(self.stem(images)))
        return largest_of_grid(grid)


class Stage(nn.Module):
    """Convolution, halving, normalisation; then one convolution, or two with a way around them."""

    def __init__(self, inputs: int, outputs: int, depth: int, activation: Activation) -> None:
        super().__init__()
        self.depth, self.pool = depth, Halving()
        self.act = nn.GELU() if activation == "gelu" else nn.ReLU()
        self.convolutions = nn.ModuleList(_convolution(inputs if i == 0 else outputs, outputs) for i in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(outputs) for _ in range(depth))

    def forward(self, grid: Tensor) -> Tensor:
        grid = self.act(self.norms[0](self.pool(self.convolutions[0](grid))))
        changed: Tensor = self.norms[1](self.convolutions[1](grid))
        if self.depth == 3:
            changed = grid + self.norms[2](self.convolutions[2](self.act(changed)))
        return self.act(changed)  # type: ignore[no-any-return]


def _convolution(inputs: int, outputs: int) -> nn.Conv2d:
    """3×3, at first passing its inputs on unchanged as far as it has outputs for them."""
    made = nn.Conv2d(inputs, outputs, 3, padding=1, bias=False)
    nn.init.dirac_(made.weight.data[:inputs])
    return made


def whitening(images: Tensor) -> Tensor:
    """Filters (2k, c, 2, 2) that turn patches into k principal components of variance one, and into their negatives.

    >>> images = torch.randn(50, 3, 8, 8).cumsum(dim=3)
    >>> found = torch.nn.functional.conv2d(images, whitening(images))[:, :12]
    >>> covariance = found.permute(1, 0, 2, 3).flatten(1).cov()
    >>> bool((covariance - torch.eye(12)).abs().max() < 0.1)
    True
    """
    channels = images.shape[1]
    total, squares, count = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64), 0
    step = max(1, PIXELS_AT_ONCE // max(1, images[0].numel()))  # patches take eight times the room
    near = images[:step].double().mean(dim=(0, 2, 3), keepdim=True)  # far from 0 sums of squares would lose digits
    for first in range(0, len(images), step):
        part = images[first : first + step].double() - near
        patches = part.unfold(2, PATCH, 1).unfold(3, PATCH, 1)  # (n, c, rows, columns, 2, 2)
        patches = patches.permute(0, 2, 3, 1, 4, 5).reshape(-1, channels * PATCH * PATCH)
        total, squares, count = total + patches.sum(dim=0), squares + patches.T @ patches, count + len(patches)
    mean = total / count
    covariance = (squares - count * mean.outer(mean)) / max(1, count - 1)
    check_finite("the covariance of the images that the first layer is computed from", covariance)
    variances, directions = torch.linalg.eigh(covariance)
    scaled = directions.T / (variances.clamp(min=0) + FLOOR).sqrt().unsqueeze(1)
    filters = scaled.flip(0).reshape(-1, channels, PATCH, PATCH).to(images.dtype)
    return torch.cat([filters, -filters])
