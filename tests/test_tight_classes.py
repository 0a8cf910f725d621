"""What training ends at: tight classes, where large terms of a gradient cancel, and margins that lift them up."""

import pytest
import torch
import torch.nn.functional as F

import sincere.functional as SF

LOSSES = {
    "out": lambda z, y, **how: SF.supcon(z, y, **how),
    "in": lambda z, y, **how: SF.supcon(z, y, form="in", **how),
    "sincere": SF.sincere,
    "decoupled": SF.decoupled,
}


def tight(n, classes, spread):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n) % classes
    centres = F.normalize(torch.randn(classes, 32, generator=generator), dim=1)
    return centres[labels] + spread * torch.randn(n, 32, generator=generator) / 32**0.5, labels


def gradient(loss, z, labels, dtype, backend):
    rows = z.to(dtype).requires_grad_()
    return torch.autograd.grad(loss(rows, labels, backend=backend), rows)[0].double()


@pytest.mark.parametrize("backend", ["tiled", "auto"])
@pytest.mark.parametrize(
    ("n", "classes", "spread"), [(600, 2, 0.02), (1024, 2, 0.02), (2048, 2, 0.0), (1500, 50, 0.05)]
)
@pytest.mark.parametrize("name", LOSSES)
def test_gradients_keep_their_digits_in_tight_classes(name, n, classes, spread, backend):
    """No farther from float64 than the definition in the same precision: L_out once lost two digits more, and all of
    them where classes had collapsed."""
    z, labels = tight(n, classes, spread)
    truth = gradient(LOSSES[name], z, labels, torch.float64, "dense")
    error, of_definition = (
        float((gradient(LOSSES[name], z, labels, torch.float32, each) - truth).norm() / truth.norm())
        for each in (backend, "dense")
    )
    assert error <= 2 * of_definition + 1e-6


@pytest.mark.parametrize("backend", ["tiled", "auto"])
def test_large_classes_of_equals_have_their_value(backend):
    rows = torch.ones(1500, 8)
    labels = torch.zeros(1500, dtype=torch.int64)
    found = SF.supcon(rows, labels, temperature=0.025, reduction="none", backend=backend)
    torch.testing.assert_close(found, torch.full((1500,), 1499.0).log(), rtol=0, atol=2e-5)


@pytest.mark.parametrize("epsilon", [1.0, 17.0, 18.0, 25.0, 40.0])
def test_a_margin_of_any_size_is_taken_with_care(epsilon):
    """The worst that cosines allow at τ = 1/32: opposite positives, all negatives as near as can be."""
    rows = torch.zeros(896, 2)
    rows[:, 0] = 1
    rows[0, 0] = -1
    labels = torch.arange(896) // 2
    random = torch.randn(600, 2, generator=torch.Generator().manual_seed(0)), torch.arange(600) // 2
    for z, y in ((rows, labels), random):
        found, expected = z.clone().requires_grad_(), z.double().requires_grad_()
        value = SF.eps_supinfonce(found, y, epsilon=epsilon, temperature=1 / 32)
        truth = SF.eps_supinfonce(expected, y, epsilon=epsilon, temperature=1 / 32, backend="dense")
        assert value.item() == pytest.approx(truth.item(), rel=1e-5)
        value.backward()
        truth.backward()
        torch.testing.assert_close(found.grad.double(), expected.grad, rtol=1e-3, atol=1e-5)
