"""An encoder of sound: a convolutional network on the log-mel spectrogram."""

import torch
from torch import Tensor, nn

from sincere.encoders.mel import LogMel
from sincere.encoders.pooling import largest_of_grid
from sincere.encoders.resnet import convolution, initialise
from sincere.encoders.shapes import check_batch, check_shape, check_size
from sincere.errors import OptionError


class SoundEncoder(nn.Module):
    """Waveforms (b, samples) -> features (b, 8 · width).

    Convolutions on the log-mel spectrogram, which halve both its sides three times; the features are the mean and the
    maximum over what is left of time and pitch.

    Args:
        shape: (samples,) of one clip.
        sample_rate: samples per second.
        bands: of the spectrogram.
        width: channels of the first convolution; the others have twice and four times as many.
    """

    def __init__(
        self, shape: tuple[int, ...], *, sample_rate: int | None = None, bands: int = 40, width: int = 32
    ) -> None:
        super().__init__()
        check_shape("sound", shape, ("samples",))
        check_size("width", width)
        if sample_rate is None:
            raise OptionError("the sound encoder needs the samples per second: give sample_rate=….")
        self.spectrogram = LogMel(sample_rate, bands=bands)
        # Strides halve and no pooling does: at full size there is one channel only, and a spectrogram is cheap.
        plan = ((1, width, 5, 2), (width, 2 * width, 3, 2), (2 * width, 4 * width, 3, 2), (4 * width, 4 * width, 3, 1))
        layers: list[nn.Module] = []
        for inputs, outputs, size, stride in plan:
            layers += [convolution(inputs, outputs, size, stride), nn.BatchNorm2d(outputs), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.feature_dim = 8 * width
        initialise(self)

    def forward(self, waveforms: Tensor) -> Tensor:
        check_batch("this sound encoder", waveforms, ("samples",))
        grid: Tensor = self.layers(self.spectrogram(waveforms).unsqueeze(1))
        return torch.cat([grid.mean(dim=(2, 3)), largest_of_grid(grid)], dim=1)
