"""A small convolutional network for tiny images, such as 8×8 digits: trains in seconds on a laptop."""

from torch import Tensor, nn

from sincere.encoders.resnet import convolution, initialise
from sincere.encoders.shapes import IMAGE, check_batch, check_shape, check_size


class SmallCNN(nn.Module):
    """Three pairs of 3×3 convolutions with halving between them: images (b, c, h, w) -> features (b, 4 · width).

    Args:
        shape: (channels, height, width) of one image.
        width: channels of the first pair; the second has twice, the third four times as many.
    """

    def __init__(self, shape: tuple[int, ...], *, width: int = 32) -> None:
        super().__init__()
        check_shape("small_cnn", shape, IMAGE)
        check_size("width", width)
        self.channels, self.feature_dim = shape[0], 4 * width
        layers: list[nn.Module] = []
        inputs, side = shape[0], min(shape[1:])
        for outputs in (width, 2 * width, 4 * width):
            if layers and side >= 4:  # below four pixels there is nothing left to halve
                layers.append(nn.MaxPool2d(2))
                side //= 2
            for _ in range(2):
                layers += [convolution(inputs, outputs, 3), nn.BatchNorm2d(outputs), nn.ReLU()]
                inputs = outputs
        self.layers = nn.Sequential(*layers)
        initialise(self)

    def forward(self, images: Tensor) -> Tensor:
        check_batch("this small_cnn", images, (self.channels, "h", "w"))
        grid: Tensor = self.layers(images)
        return grid.mean(dim=(2, 3))
