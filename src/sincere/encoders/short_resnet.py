"""A short residual network for small images: few, wide layers, which a GPU runs faster than many thin ones."""

from itertools import pairwise
from typing import Literal, TypeAlias

from torch import Tensor, nn

from sincere.checks import check_choice
from sincere.encoders.pooling import Halving, largest_of_grid
from sincere.encoders.resnet import convolution, initialise
from sincere.encoders.shapes import IMAGE, check_batch, check_multiple, check_shape
from sincere.errors import OptionError

Residuals: TypeAlias = Literal["outer", "all"]
SMALLEST = 8  # pixels of a side of which three halvings leave one


class ShortResNet(nn.Module):
    """Nine layers with weights, the classifier's included: images (b, c, h, w) -> features (b, 512 · width).

    A 3×3 convolution at full size, then three stages of convolution, halving, normalisation; the first and the last
    stage have a residual pair of convolutions behind them. The features are the maximum over what is left of the image.

    >>> import torch
    >>> ShortResNet((3, 32, 32), width=0.25)(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 128])

    Source: the shape of David Page's ResNet-9 (2018), written for CIFAR-10 in seconds. Ours: the middle stage may have
    its residual pair too, and batch normalisation stands before ReLU throughout.

    Args:
        shape: (channels, height, width) of one image.
        width: multiplies 64, 128, 256 and 512 channels.
        residuals: "outer" as above; "all" gives the middle stage a pair too, eleven layers.
    """

    def __init__(self, shape: tuple[int, ...], *, width: float = 1.0, residuals: Residuals = "outer") -> None:
        super().__init__()
        check_shape("resnet9", shape, IMAGE)
        check_choice("residuals", residuals, ("outer", "all"))
        if min(shape[1:]) < SMALLEST:
            raise OptionError(
                f"resnet9 halves images three times: they must have {SMALLEST} pixels or more, got {shape[1:]}."
            )
        check_multiple("width", width, 64)
        channels = [round(size * width) for size in (64, 128, 256, 512)]
        self.channels, self.feature_dim = shape[0], channels[-1]
        layers: list[nn.Module] = [_layer(shape[0], channels[0])]
        for stage, (inputs, outputs) in enumerate(pairwise(channels)):
            layers.append(_layer(inputs, outputs, halved=True))
            if stage != 1 or residuals == "all":
                layers.append(Pair(outputs))
        self.layers = nn.Sequential(*layers)
        initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        check_batch("this resnet9", images, (self.channels, "h", "w"), least=SMALLEST)
        grid: Tensor = self.layers(images)
        return largest_of_grid(grid)


class Pair(nn.Module):
    """Two layers around which the input goes too."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(_layer(channels, channels), _layer(channels, channels))

    def forward(self, grid: Tensor) -> Tensor:
        changed: Tensor = self.layers(grid)
        return grid + changed


def _layer(inputs: int, outputs: int, *, halved: bool = False) -> nn.Sequential:
    """Convolution, normalisation, ReLU; halved before the normalisation, which then has a quarter to do."""
    pool = [Halving()] if halved else []
    return nn.Sequential(convolution(inputs, outputs, 3), *pool, nn.BatchNorm2d(outputs), nn.ReLU())
