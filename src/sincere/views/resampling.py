"""Images resampled along their rows and columns, each image in its own way.

Cropping, resizing, shifting and blurring treat the two axes apart: the result is R · image · Cᵀ with a matrix R of
weights over rows and C over columns. Two batched products then serve a whole batch, whatever each image wants.
"""

import torch
from torch import Tensor


def resample(images: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """R · image · Cᵀ for images (n, c, h, w), with rows (n, h', h) and columns (n, w', w)."""
    n, c, h, w = images.shape
    # Channels lie side by side, so that one product a batch serves them all.
    tall = torch.bmm(rows, images.transpose(1, 2).reshape(n, h, c * w))
    # Sizes are spelt out: of no images at all −1 could be anything.
    wide = torch.bmm(tall.reshape(n, rows.shape[1] * c, w), columns.transpose(1, 2))
    return wide.reshape(n, rows.shape[1], c, columns.shape[1]).transpose(1, 2)


def interval_weights(start: Tensor, length: Tensor, size: int, target: int) -> Tensor:
    """Weights (n, target, size) that stretch the pixels [start, start + length) of an axis over `target` pixels.

    Bilinear, with antialiasing where it shrinks: a triangle around each target pixel's centre, as wide as the larger of
    the two pixels, cut at the ends of the interval and normalised. That is how Pillow and torchvision (antialias=True)
    define it. Where `target` is at least `length`, antialiasing changes nothing.
    """
    start, length = start.reshape(-1, 1, 1), length.reshape(-1, 1, 1)
    step = length / target
    centre = start + (torch.arange(target, device=start.device).reshape(1, -1, 1) + 0.5) * step
    pixel = torch.arange(size, device=start.device).reshape(1, 1, -1)
    weights = (1 - (pixel + 0.5 - centre).abs() / step.clamp(min=1)).clamp(min=0)
    weights = weights * ((pixel >= start) & (pixel < start + length))
    return weights / weights.sum(dim=2, keepdim=True)


def reflected(places: Tensor, size: int) -> Tensor:
    """Places up to size − 1 beyond either end of an axis, mirrored into it without repeating the end."""
    return (size - 1) - ((size - 1) - places.abs()).abs()


def shift_weights(shift: Tensor, size: int) -> Tensor:
    """Weights (n, size, size) that move an axis by whole pixels and mirror what would lie outside."""
    pixel = torch.arange(size, device=shift.device)
    source = reflected(pixel + shift.reshape(-1, 1), size)
    return (source.unsqueeze(2) == pixel).to(shift.dtype)


def blur_weights(deviation: Tensor, reach: int, size: int) -> Tensor:
    """Weights (n, size, size) that blur an axis by a Gaussian of 2·reach + 1 pixels, mirrored at the ends."""
    pixel = torch.arange(size, device=deviation.device)
    offset = torch.arange(-reach, reach + 1, device=deviation.device)
    kernel = torch.exp(-0.5 * (offset / deviation.reshape(-1, 1)) ** 2)
    kernel = kernel / kernel.sum(dim=1, keepdim=True)
    lands = reflected(pixel.unsqueeze(1) + offset.reshape(-1, 1, 1), size) == pixel
    return torch.einsum("nk,kij->nij", kernel, lands.to(kernel.dtype))
