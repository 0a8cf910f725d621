"""Small pictures of samples, so that a report can show what a point is without the data."""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sincere.embeddings.arrays import Array, writable

SIDE = 32  # pixels at most: enough to know what it is, and 3 kB a sample
BLOCK = 4096  # images that are scaled at once


def thumbnails(images: Tensor) -> Tensor:
    """uint8 (n, channels, h, w) → uint8 (n, h, w) of grey ones and (n, h, w, 3) of coloured ones, on the CPU.

    Larger images are averaged down until no side has more than 32 pixels; smaller ones stay as they are. Of two
    channels the first is taken, of four or more the first three.

    >>> thumbnails(torch.zeros(5, 3, 64, 48, dtype=torch.uint8)).shape
    torch.Size([5, 32, 24, 3])
    """
    channels, height, width = images.shape[1:]
    kept = images[:, : 3 if channels >= 3 else 1]
    longest = max(height, width)
    if longest > SIDE:
        size = (max(1, round(height * SIDE / longest)), max(1, round(width * SIDE / longest)))
        parts = [F.interpolate(part.float(), size=size, mode="area") for part in torch.split(kept, BLOCK)]
        kept = torch.cat([part.round().to(torch.uint8) for part in parts])
    kept = kept.cpu()
    return (kept.permute(0, 2, 3, 1) if kept.shape[1] == 3 else kept[:, 0]).contiguous()


def thumbnails_of(images: Array, samples: int) -> Tensor | None:
    """The same of somebody's array, channels first, last or none; None where it holds no pictures, one a sample."""
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or images.shape[0] != samples or 0 in images.shape[1:]:
        return None
    found = torch.from_numpy(writable(np.ascontiguousarray(images)))
    if found.ndim == 3:
        return thumbnails(found.unsqueeze(1))
    if found.shape[3] in (1, 3, 4):
        return thumbnails(found.permute(0, 3, 1, 2))
    return thumbnails(found) if found.shape[1] in (1, 3, 4) else None
