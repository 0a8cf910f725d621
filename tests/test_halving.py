"""Halving of grids: our kernels give torch's values and gradients to the last bit."""

import pytest
import torch
import torch.nn.functional as F

from kernel_results import CUDA, DEVICE, needs_kernels
from sincere.encoders.pooling import Halving, takes_kernels

SHAPES = [(2, 5, 7, 6), (3, 8, 4, 4), (1, 3, 2, 3), (2, 130, 5, 5), (1, 128, 31, 31)]


def grid_of(shape, dtype=torch.float32):
    values = torch.randn(shape, device=DEVICE).round(decimals=1).to(dtype)  # with ties
    return values.contiguous(memory_format=torch.channels_last).requires_grad_()


def with_gradient(function, grid):
    halved = function(grid)
    (gradient,) = torch.autograd.grad((halved.float() * weights(halved)).sum(), grid)
    return halved, gradient


def weights(halved):
    return torch.arange(halved.numel(), device=DEVICE).reshape(halved.shape).float().cos()


@needs_kernels
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_kernels_are_torchs_maximum(shape, dtype):
    from sincere.encoders.triton_halving import Halved

    grid = grid_of(shape, dtype)
    ours, theirs = (with_gradient(one, grid) for one in (Halved.apply, lambda grid: F.max_pool2d(grid, 2)))
    for a, b in zip(ours, theirs, strict=True):
        assert a.dtype == b.dtype
        assert a.is_contiguous(memory_format=torch.channels_last)
        assert torch.equal(a, b)


@needs_kernels
@pytest.mark.parametrize("broken", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_one_broken_number_goes_where_torch_lets_it_go(broken, place):
    from sincere.encoders.triton_halving import Halved

    grid = torch.randn(2, 3, 4, 4, device=DEVICE)
    grid[0, 1, place[0], place[1]] = broken
    grid = grid.contiguous(memory_format=torch.channels_last).requires_grad_()
    ours, theirs = (with_gradient(one, grid) for one in (Halved.apply, lambda grid: F.max_pool2d(grid, 2)))
    for a, b in zip(ours, theirs, strict=True):
        assert torch.equal(a.isnan(), b.isnan())
        assert torch.equal(a.nan_to_num(), b.nan_to_num())


@needs_kernels
@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_second_derivatives_are_torchs(shape):
    """A penalty on the gradient, as for smooth networks."""
    from sincere.encoders.triton_halving import Halved

    def penalised(function, grid):
        halved = function(grid)
        (gradient,) = torch.autograd.grad((halved.square() * weights(halved)).sum(), grid, create_graph=True)
        return torch.autograd.grad((gradient * gradient.detach().cos()).sum(), grid)[0]

    grid = grid_of(shape)
    ours, theirs = (penalised(one, grid) for one in (Halved.apply, lambda grid: F.max_pool2d(grid, 2)))
    assert theirs.abs().sum() > 0
    assert torch.equal(ours, theirs)


def test_without_a_gpu_it_is_torchs():
    grid = torch.randn(2, 3, 5, 4, requires_grad=True)
    assert not takes_kernels(grid)
    assert torch.equal(Halving()(grid), F.max_pool2d(grid, 2))


@pytest.mark.gpu
@pytest.mark.skipif(not CUDA, reason="needs a CUDA device")
def test_who_gets_kernels():
    """A network as it trains; not transforms, compilers, other layouts, or other numbers."""
    grid = grid_of((4, 16, 9, 9))
    assert takes_kernels(grid)
    assert not takes_kernels(grid.detach().contiguous())
    assert not takes_kernels(grid.double())
    weight = weights(Halving()(grid))
    by_transform = torch.func.grad(lambda x: (Halving()(x) * weight).sum())(grid.detach())
    assert torch.equal(by_transform, with_gradient(Halving(), grid)[1])
    torch.compiler.reset()
    compiled = torch.compile(Halving(), fullgraph=True)
    assert torch.equal(compiled(grid), F.max_pool2d(grid, 2))
