"""What the tests of the kernels share: where they run, and how a result is compared with the truth."""

import os

import pytest
import torch

from loss_table import LOSSES

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
KERNEL_LOSSES = [case for case in LOSSES if case.name != "set_nce"]
needs_kernels = pytest.mark.skipif(
    not CUDA and os.environ.get("TRITON_INTERPRET") != "1",
    reason="needs a CUDA device, or TRITON_INTERPRET=1 set before triton is imported (tests/conftest.py does)",
)


def results(case, z, labels, *contrasts, **options):
    """Value, and the gradients of everything that is differentiable."""
    z = z.detach().clone().requires_grad_()
    contrasts = tuple(c.detach().clone().requires_grad_() if c.is_floating_point() else c for c in contrasts)
    temperature = torch.tensor(options.pop("temperature"), device=z.device, dtype=torch.float64, requires_grad=True)
    loss = case.call(z, labels, *contrasts, temperature=temperature, **options)
    inputs = [z, temperature, *(c for c in contrasts if c.is_floating_point())]
    return [loss.detach(), *torch.autograd.grad(loss, inputs)]


def losses_and_gradient(call, z, labels, *contrasts, **options):
    """Every anchor's loss, and the gradient of their sum."""
    z = z.detach().clone().requires_grad_()
    losses = call(z, labels, *contrasts, reduction="none", **options)
    return losses.detach(), torch.autograd.grad(losses.sum(), z)[0]


def assert_close(candidate, truth, tolerance):
    for got, want in zip(candidate, truth, strict=True):
        assert (got.double() - want.double()).norm() <= tolerance * (want.double().norm() + 1e-3)
