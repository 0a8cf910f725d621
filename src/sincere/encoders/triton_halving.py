"""The maximum of every 2×2 pixels of channels-last grids, and its gradient, each in one pass over memory.

torch's own kernels are slow in this layout: docs/gpu-kernels.md has what an epoch of `short_cnn` takes with either.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

PIXELS, CHANNELS = 8, 128  # of a program: 1,024 values, eight a thread, whose channels lie side by side


@triton.jit
def halve(
    grid_ptr, largest_ptr, place_ptr, pixels, height, width, channels, PIXELS: tl.constexpr, CHANNELS: tl.constexpr
):
    """Of each 2×2 pixels the largest, and which it was: 0 to 3, row by row. The first of equals; NaN wins."""
    pixel = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    mask = (pixel < pixels)[:, None] & (channel < channels)[None, :]
    rows, columns = height // 2, width // 2
    column, line = pixel % columns, pixel // columns
    row, image = line % rows, line // rows
    first = ((image * height + 2 * row) * width + 2 * column) * channels
    source = grid_ptr + first[:, None] + channel[None, :]
    largest = tl.load(source, mask=mask, other=0.0).to(tl.float32)  # exact there and back, and an interpreter needs it
    place = tl.zeros([PIXELS, CHANNELS], tl.int8)
    for k in tl.static_range(1, 4):
        value = tl.load(source + ((k // 2) * width + k % 2) * channels, mask=mask, other=0.0).to(tl.float32)
        taken = (value > largest) | (value != value)
        largest = tl.where(taken, value, largest)
        place = tl.where(taken, k, place).to(tl.int8)
    target = pixel[:, None] * channels + channel[None, :]
    tl.store(largest_ptr + target, largest, mask=mask)
    tl.store(place_ptr + target, place, mask=mask)


@triton.jit
def give_back(
    gradient_ptr, place_ptr, grid_ptr, cells, height, width, channels, PIXELS: tl.constexpr, CHANNELS: tl.constexpr
):
    """The gradient at the place of each maximum, 0 elsewhere, also in a row or column that no 2×2 pixels took in."""
    cell = tl.program_id(0) * PIXELS + tl.arange(0, PIXELS)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    mask = (cell < cells)[:, None] & (channel < channels)[None, :]
    columns = (width + 1) // 2
    column, line = cell % columns, cell // columns
    rows = (height + 1) // 2
    row, image = line % rows, line // rows
    whole = mask & ((row < height // 2) & (column < width // 2))[:, None]
    pixel = (image * (height // 2) + row) * (width // 2) + column
    source = pixel[:, None] * channels + channel[None, :]
    gradient = tl.load(gradient_ptr + source, mask=whole, other=0.0)
    place = tl.load(place_ptr + source, mask=whole, other=0)
    for k in tl.static_range(4):
        inside = (2 * row + k // 2 < height) & (2 * column + k % 2 < width)
        target = ((image * height + 2 * row + k // 2) * width + 2 * column + k % 2) * channels
        value = tl.where(place == k, gradient, 0.0)
        tl.store(grid_ptr + target[:, None] + channel[None, :], value, mask=mask & inside[:, None])


class Halved(torch.autograd.Function):
    """`F.max_pool2d(grid, 2)` of a grid (b, c, h, w) in channels-last order."""

    @staticmethod
    def forward(ctx: Any, grid: Tensor) -> Tensor:
        images, channels, height, width = grid.shape
        shape = (images, channels, height // 2, width // 2)
        largest = torch.empty(shape, dtype=grid.dtype, device=grid.device, memory_format=torch.channels_last)
        place = torch.empty(shape, dtype=torch.int8, device=grid.device, memory_format=torch.channels_last)
        pixels = images * (height // 2) * (width // 2)
        with on_device_of(grid):
            halve[programs(pixels, channels)](
                grid, largest, place, pixels, height, width, channels, PIXELS=PIXELS, CHANNELS=CHANNELS
            )
        ctx.save_for_backward(place)
        ctx.size = grid.shape
        return largest

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (place,) = ctx.saved_tensors
        return GivenBack.apply(gradient, place, ctx.size)  # type: ignore[no-untyped-call, no-any-return]


class GivenBack(torch.autograd.Function):
    """The gradient of `Halved`, which is linear in what comes in, so that its own is the pick of what went out."""

    @staticmethod
    def forward(ctx: Any, gradient: Tensor, place: Tensor, size: torch.Size) -> Tensor:
        images, channels, height, width = size
        gradient = gradient.contiguous(memory_format=torch.channels_last)
        grid = torch.empty(size, dtype=gradient.dtype, device=gradient.device, memory_format=torch.channels_last)
        cells = images * ((height + 1) // 2) * ((width + 1) // 2)
        with on_device_of(grid):
            give_back[programs(cells, channels)](
                gradient, place, grid, cells, height, width, channels, PIXELS=PIXELS, CHANNELS=CHANNELS
            )
        ctx.save_for_backward(place)
        return grid

    @staticmethod
    def backward(ctx: Any, of_grid: Tensor) -> tuple[Tensor, None, None]:
        (place,) = ctx.saved_tensors
        images, channels, rows, columns = place.shape
        quads = of_grid[:, :, : 2 * rows, : 2 * columns].reshape(images, channels, rows, 2, columns, 2)
        quads = quads.transpose(3, 4).flatten(4)
        return quads.gather(4, place.long().unsqueeze(4)).squeeze(4), None, None


def programs(pixels: int, channels: int) -> tuple[int, int]:
    return triton.cdiv(pixels, PIXELS), triton.cdiv(channels, CHANNELS)


def on_device_of(tensor: Tensor) -> Any:
    """Kernels start on the current GPU, which need not be the tensor's."""
    return torch.cuda.device_of(tensor)
