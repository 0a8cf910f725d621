"""Fused losses in every way of ordering rows: strided rows, memory that was used before, digits of small losses."""

import pytest
import torch

import sincere.functional as SF
from kernel_results import DEVICE, assert_close, needs_kernels
from sincere.losses.backends import fused

pytest.importorskip("triton")
from sincere.losses.backends import triton_fused

pytestmark = needs_kernels
# Up to how many rows places are found by counting, and by chunks; beyond by sorting.
WAYS = {"counting": (2048, 32768), "chunks": (0, 32768), "sorting": (0, 0)}


@pytest.fixture
def way(request, monkeypatch):
    """The way named by the test's parameter."""
    for limit, most in zip(("COUNTING", "CHUNKS"), WAYS[request.param], strict=True):
        monkeypatch.setattr(triton_fused, limit, most)
    fused._kept_plan.cache_clear()
    yield request.param
    fused._kept_plan.cache_clear()


def used_before(monkeypatch):
    """`torch.empty` hands out what a GPU's memory holds: here bytes that are NaN, and −1 as whole numbers."""
    empty = torch.empty

    def filled(*arguments, **options):
        made = empty(*arguments, **options)
        if made.numel():
            made.reshape(-1).view(torch.uint8).fill_(0xFF)
        return made

    monkeypatch.setattr(torch, "empty", filled)


# Rows wider than 128 have kernels of their own for the gradient.
@pytest.mark.parametrize(
    ("way", "dim"), [("counting", 5), ("chunks", 5), ("sorting", 5), ("counting", 130)], indirect=["way"]
)
def test_strided_rows_and_used_memory(way, dim, monkeypatch):
    """Rows cut out of wider ones, some without a label, and a temperature to which every row's gradient contributes."""
    z, labels = torch.randn(40, dim + 4, device=DEVICE)[:, 2:-2], torch.randint(-1, 3, (40,), device=DEVICE)

    def results(rows, backend):
        rows = rows.detach().requires_grad_()
        temperature = torch.tensor(0.2, device=DEVICE, dtype=rows.dtype, requires_grad=True)
        value = SF.sincere(rows, labels, temperature=temperature, backend=backend)
        return [value.detach(), *torch.autograd.grad(value, [rows, temperature])]

    truth = results(z.double(), "dense")
    used_before(monkeypatch)
    assert_close(results(z, "triton"), truth, 2e-5)


@pytest.mark.parametrize("temperature", [0.2, 0.1, 0.07])
def test_small_losses_keep_their_digits(temperature):
    """Classes at right angles: log(1 + y) for y from 5e-2 down to 5e-6, where 1 + y has lost most of them."""
    labels = torch.arange(12, device=DEVICE) % 3
    z = torch.eye(3, device=DEVICE)[labels] + 0.01 * torch.randn(12, 3, device=DEVICE)
    options = {"temperature": temperature, "reduction": "none"}
    truth = SF.sincere(z.double(), labels, backend="dense", **options)
    found = SF.sincere(z, labels, backend="triton", **options)
    assert truth.max() < 0.1
    torch.testing.assert_close(found.double(), truth, rtol=5e-5, atol=0)
