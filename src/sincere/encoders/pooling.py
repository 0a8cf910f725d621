"""The largest value of each channel, in a form whose gradient survives compilation.

The gradient of `amax` goes to every value that equals the maximum. torch.compile may keep more digits of the values
than bfloat16 has and compare them with a maximum that was rounded: none is equal, and 0/0 is the gradient of the whole
network. What is used here remembers the place of the maximum.
"""

import torch.nn.functional as F
from torch import Tensor


def largest_of_grid(grid: Tensor) -> Tensor:
    """(b, c, h, w) -> (b, c)."""
    return F.max_pool2d(grid, grid.shape[2:]).flatten(1)


def largest_of_sequence(sequence: Tensor) -> Tensor:
    """(b, length, c) -> (b, c)."""
    return sequence.max(dim=1).values
