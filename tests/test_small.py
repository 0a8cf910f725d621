"""Whole losses of small batches on a CPU: the same value and gradient as by the definition, and who gets them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import oracles
import sincere
import sincere.functional as SF
from loss_table import LOSSES, flat
from sincere.errors import InputError
from sincere.losses.backends import select, small
from sincere.losses.options import Settings

# The set loss and the spread loss are no combinations of statistics of one batch.
WHOLE = [case for case in LOSSES if case.name not in ("set_nce", "spread")]
BATCHES = {
    "classes": [0, 0, 0, 1, 1, 2, 2, 2, 2, 3],  # 3 is alone
    "one class": [5] * 6,
    "all alone": [0, 1, 2, 3],
    "one of two": [0, 0, 0, 1],
    "one": [0],
    "large numbers": [2**62, -(2**62), 2**62, 7, 7],
}


@pytest.fixture
def taken(monkeypatch):
    """Which calls were computed here."""
    original, found = small.loss, []

    def loss(*arguments):
        value = original(*arguments)
        found.append(value is not None)
        return value

    monkeypatch.setattr(small, "loss", loss)
    return found


def value_and_gradient(call, z, *arguments, **options):
    z = z.detach().clone().requires_grad_()
    loss = call(z, *arguments, **options)
    return loss.detach(), torch.autograd.grad(loss, z)[0]


@pytest.mark.parametrize("reduction", select.PLAIN_REDUCTIONS)
@pytest.mark.parametrize("name", BATCHES)
@pytest.mark.parametrize("case", WHOLE, ids=repr)
def test_equals_the_oracle_and_the_definition(case, name, reduction, taken):
    labels = torch.tensor(BATCHES[name])
    z = 3 * torch.randn(len(labels), 4, dtype=torch.float64)
    value, gradient = value_and_gradient(case.call, z, labels, reduction=reduction, temperature=0.2)
    assert taken == [True]
    rows, row_labels = flat(z, labels)
    everyone = np.ones(len(rows), dtype=bool)
    truth = oracles.reduce(
        case.truth(oracles.batch_from_labels(rows, row_labels, 0.2), 1), everyone, row_labels, reduction
    )
    assert value.item() == pytest.approx(truth, rel=1e-12, abs=1e-13)
    expected = value_and_gradient(case.call, z, labels, reduction=reduction, temperature=0.2, backend="dense")
    torch.testing.assert_close((value, gradient), expected, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize("temperature", [1 / 32, 0.1, 5.0])
@pytest.mark.parametrize("case", WHOLE, ids=repr)
def test_single_precision_keeps_the_definitions_digits(case, temperature):
    """Also where classes have collapsed, and losses are small."""
    labels, corners = torch.arange(60) % 5, torch.eye(5, 8)
    for noise in (1.0, 0.1, 0.01):
        z = corners[labels] + noise * torch.randn(60, 8)
        truth, of_truth = value_and_gradient(case.call, z.double(), labels, temperature=temperature, backend="dense")
        errors = {}
        for backend in ("auto", "dense"):
            value, gradient = value_and_gradient(case.call, z, labels, temperature=temperature, backend=backend)
            errors[backend] = torch.stack([(value - truth).abs(), (gradient - of_truth).norm()])
        slack = 1e-6 * torch.stack([truth.abs(), of_truth.norm()]) + 1e-9
        assert (errors["auto"] <= 2 * errors["dense"] + slack).all(), (noise, errors)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(dtype, taken):
    z, labels = torch.randn(20, 2, 8).to(dtype), torch.arange(20) % 3
    value, gradient = value_and_gradient(SF.sincere, z, labels)
    expected, of_expected = value_and_gradient(SF.sincere, z, labels, backend="dense")
    assert (value.dtype, gradient.dtype, taken) == (expected.dtype, dtype, [True])
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, of_expected)


def test_a_scaled_loss_saves_small_gradients_from_underflow():
    """As torch.amp.GradScaler has it: without the scale this gradient is 0 in float16."""
    labels = torch.arange(20) % 2
    z = (torch.eye(2, 8)[labels] + 1e-3 * torch.randn(20, 8)).half().requires_grad_()
    assert not torch.autograd.grad(SF.sincere(z, labels, temperature=0.04), z)[0].any()
    scaled = (torch.autograd.grad(2.0**16 * SF.sincere(z, labels, temperature=0.04, backend=backend), z)[0]
              for backend in ("auto", "dense"))  # fmt: skip
    found, expected = scaled
    assert expected.any()
    torch.testing.assert_close(found, expected)


def test_views_follow_each_other(taken):
    z, labels = torch.randn(6, 2, 5, dtype=torch.float64), torch.tensor([0, 0, 1, 1, 2, 3])
    found = value_and_gradient(SF.supcon, z, labels)
    torch.testing.assert_close(found, value_and_gradient(SF.supcon, z, labels, backend="dense"), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(SF.infonce(z), SF.infonce(z, backend="dense"), rtol=1e-12, atol=0)
    assert taken == [True, True]


@pytest.mark.parametrize("case", WHOLE, ids=repr)
def test_derivatives_of_any_order(case):
    """A derivative of the derivative goes back to the definition."""
    z, labels = torch.randn(7, 3, dtype=torch.float64, requires_grad=True), torch.tensor([0, 0, 1, 1, 1, 2, 2])

    def loss(z):
        return case.call(z, labels, temperature=0.7)

    assert gradcheck(loss, (z,))
    assert gradgradcheck(loss, (z,))
    (first,) = torch.autograd.grad(loss(z), z, create_graph=True)
    (plain,) = torch.autograd.grad(loss(z), z)
    torch.testing.assert_close(first, plain, rtol=1e-10, atol=1e-13)


def test_a_graph_that_is_kept_can_be_gone_through_twice():
    z, labels = torch.randn(8, 4, requires_grad=True), torch.arange(8) % 2
    loss = 3 * SF.sincere(z, labels)
    loss.backward(retain_graph=True)
    once = z.grad.clone()
    loss.backward()
    torch.testing.assert_close(z.grad, 2 * once)
    torch.testing.assert_close(once, 3 * value_and_gradient(SF.sincere, z, labels, backend="dense")[1])


def test_several_gradients_at_once():
    """As torch.autograd.functional.jacobian(vectorize=True) asks for them."""
    z, labels = torch.randn(8, 4, requires_grad=True), torch.arange(8) % 2
    scales = torch.tensor([1.0, -2.0, 0.0])
    (found,) = torch.autograd.grad(SF.supcon(z, labels), z, scales, is_grads_batched=True)
    torch.testing.assert_close(found, scales.view(3, 1, 1) * value_and_gradient(SF.supcon, z, labels)[1])


def test_no_gradient_is_computed_where_none_is_wanted(monkeypatch):
    monkeypatch.setattr(small.Pairs, "gradient", None)  # a call would fail
    z, labels = torch.randn(8, 4), torch.arange(8) % 2
    with torch.no_grad():
        assert not SF.sincere(z.requires_grad_(), labels).requires_grad
    assert not SF.sincere(z.detach(), labels).requires_grad


Z, LABELS = torch.randn(12, 4), torch.arange(12) % 3


@pytest.mark.parametrize(
    ("z", "labels"),
    [
        (Z * (torch.arange(12) != 5).unsqueeze(1), LABELS),  # a zero vector
        (Z * 1e-20, LABELS),
        (Z * 1e20, LABELS),
        (Z, LABELS - 1),  # unlabelled ones
        (torch.where(LABELS.unsqueeze(1) == 0, torch.nan, Z), LABELS - 1),  # which hold anything
    ],
    ids=["zero", "short", "long", "unlabelled", "unlabelled and NaN"],
)
def test_what_is_out_of_the_ordinary_goes_the_general_way(z, labels, taken):
    found = value_and_gradient(SF.sincere, z, labels)
    assert taken == [False]
    torch.testing.assert_close(found, value_and_gradient(SF.sincere, z, labels, backend="dense"))
    assert torch.isfinite(found[0])


@pytest.mark.parametrize("broken", [torch.nan, torch.inf])
def test_what_is_broken_stays_so(broken):
    z = Z.clone()
    z[3, 1] = broken
    assert SF.supcon(z, LABELS).isnan()


def test_who_gets_it(monkeypatch):
    usual = Settings()
    assert select.small_takes_whole_loss(Z, LABELS, usual, 0.0)
    assert select.small_takes_whole_loss(torch.nn.Parameter(Z), LABELS.to(torch.uint8), usual, 0.0)
    others = [{"backend": "dense"}, {"gather": True}, {"check_finite": True}, {"similarity": "dot"}]
    others += [{"temperature": 0.01}, {"temperature": torch.tensor(0.1)}, {"reduction": "none"}]
    others += [{"reduction": "class_mean"}, {"weights": torch.ones(12)}]
    for options in others:
        assert not select.small_takes_whole_loss(Z, LABELS, replace(usual, **options), 0.0), options
    for z, labels in [(Z, LABELS > 0), (Z, LABELS[:-1]), (Z, LABELS.float()), (Z[:0], LABELS[:0]), (Z.long(), LABELS)]:
        assert not select.small_takes_whole_loss(z, labels, usual, 0.0)
    assert not select.small_takes_whole_loss(Z.to("meta"), LABELS, usual, 0.0)
    assert not select.small_takes_whole_loss(Z, LABELS, usual, 31.0)
    monkeypatch.setattr(select, "WHOLE_ON_CPU", 11)
    assert not select.small_takes_whole_loss(Z, LABELS, usual, 0.0)


def test_modules_and_mistakes_are_as_ever(taken):
    """A module's loss is computed here too; what is wrong is said by the general way."""
    module = sincere.SINCERELoss()
    torch.testing.assert_close(module(Z, LABELS), SF.sincere(Z, LABELS, backend="dense"))
    assert taken == [True]
    with pytest.raises(InputError, match="labels must hold one class per sample"):
        module(Z, LABELS[:-1])
