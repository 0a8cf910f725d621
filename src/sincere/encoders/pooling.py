"""Maxima over pixels: of every 2×2 of them, and of all.

The maximum of all is written in a form whose gradient survives compilation. The gradient of `amax` goes to every value
that equals the maximum. torch.compile may keep more digits of the values than bfloat16 has and compare them with a
maximum that was rounded: none is equal, and 0/0 is the gradient of the whole network. What is used here remembers the
place of the maximum.
"""

import importlib.util

import torch
import torch.nn.functional as F
from torch import Tensor, nn

HAS_TRITON = importlib.util.find_spec("triton") is not None  # looked up once: a graph being traced may not ask
KERNEL_DTYPES = (torch.bfloat16, torch.float16, torch.float32)
LARGEST = 2**31 - 1  # values of a grid whose places kernels count in 32 bits


class Halving(nn.Module):
    """The largest of every 2×2 pixels, (b, c, h, w) -> (b, c, h // 2, w // 2): by kernels of ours where they run."""

    def forward(self, grid: Tensor) -> Tensor:
        if takes_kernels(grid):
            from sincere.encoders.triton_halving import Halved

            return Halved.apply(grid)  # type: ignore[no-untyped-call, no-any-return]
        return F.max_pool2d(grid, 2)


def takes_kernels(grid: Tensor) -> bool:
    """On a GPU, channels last, and called plainly: compilers make kernels of their own, transforms need torch's."""
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        return False
    if not (HAS_TRITON and grid.is_cuda and torch.cuda.get_device_capability(grid.device) >= (8, 0)):
        return False
    fits = grid.dtype in KERNEL_DTYPES and 0 < grid.numel() <= LARGEST and min(grid.shape[2:]) >= 2
    return fits and grid.is_contiguous(memory_format=torch.channels_last)


def largest_of_grid(grid: Tensor) -> Tensor:
    """(b, c, h, w) -> (b, c)."""
    return F.max_pool2d(grid, grid.shape[2:]).flatten(1)


def largest_of_sequence(sequence: Tensor) -> Tensor:
    """(b, length, c) -> (b, c)."""
    return sequence.max(dim=1).values
