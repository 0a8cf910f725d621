"""Wide residual networks for small images, where a GPU has minutes rather than seconds."""

from torch import Tensor, nn

from sincere.checks import is_whole
from sincere.encoders.resnet import convolution, initialise
from sincere.encoders.shapes import DEEPEST, IMAGE, check_batch, check_multiple, check_shape, check_size
from sincere.errors import OptionError

CHANNELS = (16, 32, 64)  # of the three groups, times the width


class WideResNet(nn.Module):
    """A wide ResNet without its classifier: images (b, c, h, w) -> features (b, 64 · width).

    >>> import torch
    >>> encoder = WideResNet((3, 32, 32), depth=10, width=2)
    >>> encoder(torch.randn(2, 3, 32, 32)).shape
    torch.Size([2, 128])

    Source: Zagoruyko and Komodakis, 2016, arXiv 1605.07146, Table 1: three groups of blocks with two 3×3 convolutions,
    each behind normalisation and ReLU, at full size, half and a quarter. Without dropout.

    Args:
        shape: (channels, height, width) of one image.
        depth: layers with weights, the classifier's included: 4 and a multiple of 6.
        width: multiplies 16, 32 and 64 channels.
    """

    def __init__(self, shape: tuple[int, ...], *, depth: int = 28, width: float = 10.0) -> None:
        super().__init__()
        check_shape("wide_resnet", shape, IMAGE)
        if not is_whole(depth) or depth < 10 or (depth - 4) % 6:
            raise OptionError(f"depth must be 4 and a multiple of 6, as 10, 16, 22, 28 or 40: got {depth!r}.")
        check_size("depth", depth, most=DEEPEST)
        check_multiple("width", width, CHANNELS[0])
        self.channels, inputs = shape[0], CHANNELS[0]
        self.stem = convolution(shape[0], inputs, 3)
        blocks: list[nn.Module] = []
        for group, channels in enumerate(round(one * width) for one in CHANNELS):
            for number in range((depth - 4) // 6):
                blocks.append(WideBlock(inputs, channels, 2 if group and not number else 1))
                inputs = channels
        self.blocks = nn.Sequential(*blocks)
        self.last = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.feature_dim: int = inputs
        initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        check_batch("this wide_resnet", images, (self.channels, "h", "w"))
        grid: Tensor = self.last(self.blocks(self.stem(images)))
        return grid.mean(dim=(2, 3))


class WideBlock(nn.Module):
    """Two convolutions, normalised before; where the size changes, the shortcut starts behind the normalisation too."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.before = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        self.path = nn.Sequential(
            convolution(inputs, outputs, 3, stride),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            convolution(outputs, outputs, 3),
        )
        changes = stride > 1 or inputs != outputs
        self.shortcut = convolution(inputs, outputs, 1, stride) if changes else None

    def forward(self, grid: Tensor) -> Tensor:
        ready: Tensor = self.before(grid)
        around: Tensor = grid if self.shortcut is None else self.shortcut(ready)
        changed: Tensor = self.path(ready)
        return around + changed
