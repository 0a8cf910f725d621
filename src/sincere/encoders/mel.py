"""From a waveform to its log-mel spectrogram."""

import math

import torch
from torch import Tensor, nn

from sincere.encoders.shapes import check_size

MOST_BANDS = 2000  # a window of a recording at 96 kHz has 1,201 frequencies


def mel(hertz: float) -> float:
    """Pitch as it is heard, in O'Shaughnessy's (1987) formula: 2595 · log₁₀(1 + f/700)."""
    return 2595 * math.log10(1 + hertz / 700)


def hertz(pitch: float) -> float:
    """The inverse of `mel`."""
    return 700 * (10 ** (pitch / 2595) - 1)


def mel_filters(bands: int, bins: int, sample_rate: int) -> Tensor:
    """Triangles (bins, bands) over the frequencies 0 … sample_rate/2, their corners at equal steps of pitch.

    A band narrower than the distance of two bins would hear nothing; it gets at least the bin that is nearest.
    """
    top = mel(sample_rate / 2)
    corners = torch.tensor([hertz(top * i / (bands + 1)) for i in range(bands + 2)], dtype=torch.float64)
    frequency = torch.linspace(0, sample_rate / 2, bins, dtype=torch.float64).unsqueeze(1)
    low, middle, high = corners[:-2], corners[1:-1], corners[2:]
    triangles = torch.minimum((frequency - low) / (middle - low), (high - frequency) / (high - middle)).clamp(min=0)
    nearest = torch.arange(bins).unsqueeze(1) == (frequency - middle).abs().argmin(dim=0)
    deaf = triangles.sum(dim=0) == 0
    return torch.where(deaf & nearest, 1.0, triangles).float()


class LogMel(nn.Module):
    """Waveforms (b, samples) -> loudness (b, bands, frames) in [−1, 1], relative to the loudest of the clip.

    Power of short overlapping stretches under a Hann window, summed over bands of equal width in pitch, in decibels:
    1 is the loudest value of the clip, −1 lies `range_db` below it or lower. So the loudness of a recording does not
    matter. The Fourier transform is a product with a matrix: a window is short, and this way it can be exported.

    Args:
        sample_rate: samples per second.
        bands: of pitch.
        window, hop: seconds of a stretch, and from one to the next.
        range_db: what is softer than this below the loudest counts as silence.
    """

    basis: Tensor
    filters: Tensor

    def __init__(
        self, sample_rate: int, *, bands: int = 40, window: float = 0.025, hop: float = 0.010, range_db: float = 80.0
    ) -> None:
        super().__init__()
        check_size("sample_rate", sample_rate)
        check_size("bands", bands, most=MOST_BANDS)
        self.length, self.hop = max(2, round(window * sample_rate)), max(1, round(hop * sample_rate))
        self.range_db = range_db
        bins = self.length // 2 + 1
        time = torch.arange(self.length, dtype=torch.float64)
        angle = 2 * math.pi * torch.outer(time, torch.arange(bins, dtype=torch.float64)) / self.length
        shape = torch.hann_window(self.length, dtype=torch.float64).unsqueeze(1)
        basis = torch.cat([shape * angle.cos(), shape * angle.sin()], dim=1).float()
        # Both follow from the options; saved all the same, so that a model built on "meta" is whole once loaded.
        self.register_buffer("basis", basis)
        self.register_buffer("filters", mel_filters(bands, bins, sample_rate))

    def frames(self, samples: int) -> int:
        """How many stretches a clip of so many samples has."""
        return max(samples - self.length, 0) // self.hop + 1

    def forward(self, waveforms: Tensor) -> Tensor:
        with torch.autocast(waveforms.device.type, enabled=False):  # decibels of bfloat16 would be steps of 3 %
            own = self.basis.dtype
            precision = torch.promote_types(own, torch.float32)
            padded = nn.functional.pad(waveforms.to(precision), (0, max(0, self.length - waveforms.shape[1])))
            parts = padded.unfold(1, self.length, self.hop) @ self.basis.to(precision)
            real, imaginary = parts.chunk(2, dim=2)
            power = (real.square() + imaginary.square()) @ self.filters.to(precision)
            decibels = 10 * power.clamp(min=1e-20).log10()
            below = decibels - decibels.amax(dim=(1, 2), keepdim=True)
            return (1 + 2 * below / self.range_db).clamp(min=-1).transpose(1, 2).to(own)
