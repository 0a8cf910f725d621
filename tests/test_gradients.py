"""Derivatives by finite differences, twice where that is promised, and the sign of every same-class pair's."""

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

import oracles
import sincere.functional as SF
from loss_table import BACKENDS, LOSSES, REDUCTIONS, flat, rows_of

LABELS = torch.tensor([0, 0, 1, 1, 0, 0, 2, 2])


def function_of(case, backend, similarity, labels):
    """The loss as a function of anchors, contrasts and temperature alone."""
    queue_labels = torch.tensor([0, 1, 3])

    def function(z, queue, temperature):
        options = {"temperature": temperature, "similarity": similarity, "backend": backend}
        alone = case.call(z, labels, **options)
        return alone + 2 * case.call(z, labels, queue, queue_labels, include_batch=True, reduction="sum", **options)

    return function


def inputs(case):
    z, labels, _ = rows_of(case, torch.randn(8, 3, dtype=torch.float64), LABELS)
    queue = torch.randn(3, 3, dtype=torch.float64)
    temperature = torch.tensor(0.6, dtype=torch.float64)
    return labels, tuple(x.requires_grad_() for x in (z.clone(), queue, temperature))


@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_gradcheck(case, backend, similarity):
    labels, arguments = inputs(case)
    assert gradcheck(function_of(case, backend, similarity, labels), arguments)


@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_gradgradcheck_of_dense(case):
    labels, arguments = inputs(case)
    assert gradgradcheck(function_of(case, "dense", "cosine", labels), arguments)


@pytest.mark.parametrize("targets", ["classes", "pairs"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_gradcheck_of_soft_labels(backend, targets):
    z = torch.randn(6, 3, dtype=torch.float64, requires_grad=True)
    labels = torch.rand(6, 4 if targets == "classes" else 6, dtype=torch.float64)

    def function(z):
        return SF.soft_label(z, labels, targets=targets, backend=backend)

    assert gradcheck(function, (z,))
    assert backend != "dense" or gradgradcheck(function, (z,))


def test_tiled_refuses_a_second_derivative():
    z = torch.randn(6, 3, requires_grad=True)
    loss = SF.sincere(z, torch.tensor([0, 0, 1, 1, 2, 2]), backend="tiled")
    (gradient,) = torch.autograd.grad(loss, z, create_graph=True)
    with pytest.raises(RuntimeError, match="dense"):
        gradient.sum().backward()


@pytest.mark.parametrize(
    "options",
    [
        {"method": "saddle", "backend": "dense"},
        {"method": "exact", "backend": "tiled"},
        {"method": "exact", "similarity": lambda a, c: a @ c.T},
    ],
)
def test_the_set_loss_refuses_a_second_derivative_that_would_be_wrong(options):
    z = torch.randn(6, 3, requires_grad=True)
    (gradient,) = torch.autograd.grad(SF.set_nce(z, LABELS[:6], **options), z, create_graph=True)
    with pytest.raises(RuntimeError, match=r'backend="dense" and method="exact"'):
        gradient.square().sum().backward()


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own, of its first dual tensor
@pytest.mark.parametrize("loss", [SF.sincere, SF.set_nce])
def test_forward_mode_is_right_or_refused(loss):
    """Operators of torch.library would drop the tangents, and the derivative would be 0 without a word."""
    z, direction = torch.randn(2, 8, 3, dtype=torch.float64)

    def slope(backend):
        return torch.func.jvp(lambda x: loss(x, LABELS, backend=backend), (z,), (direction,))[1].item()

    step = 1e-6
    ahead, behind = (loss(z + sign * step * direction, LABELS, backend="dense").item() for sign in (1, -1))
    assert slope("dense") == pytest.approx((ahead - behind) / (2 * step), rel=1e-6)
    with pytest.raises(RuntimeError, match=r'forward mode.*Pass backend="dense"'):
        slope("tiled")


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_that_are_learned_get_a_gradient(backend, reduction):
    z = torch.randn(8, 3, dtype=torch.float64)
    weights = (torch.rand(8, dtype=torch.float64) + 0.1).requires_grad_()
    hot = torch.nn.functional.one_hot(LABELS, 3)
    for labels in (LABELS, hot):
        assert gradcheck(
            lambda w, y=labels: SF.supcon(z, y, weights=w, reduction=reduction, backend=backend), (weights,)
        )


def pair_gradients(call, z, labels, **options):
    """∂L/∂s for every ordered pair, read off a similarity that is a free matrix."""
    s = (torch.nn.functional.normalize(z, dim=-1).flatten(0, -2)).double()
    matrix = (s @ s.T).requires_grad_()
    loss = call(z.double(), labels, similarity=lambda a, c: matrix, **options)
    (gradient,) = torch.autograd.grad(loss, matrix)
    return gradient


@pytest.mark.parametrize("temperature", [0.02, 0.1, 1.0])
@pytest.mark.parametrize("noise", [0.01, 0.1, 1.0])
def test_which_losses_push_members_of_a_class_apart(noise, temperature):
    """SupCon's coefficient of a same-class pair can be positive (Eq. 14). SINCERE's and the set loss's never is."""
    labels = torch.arange(40) // 10
    z = (torch.eye(4) - 0.25)[labels] + noise * torch.randn(40, 4)
    same_class = (labels[:, None] == labels) & ~torch.eye(40, dtype=torch.bool)
    calls = [case.call for case in LOSSES if case.never_repels]
    for call in [*calls, lambda *a, **k: SF.set_nce(*a, method="saddle", **k)]:
        gradient = pair_gradients(call, z, labels, temperature=temperature)
        # supcon_in subtracts two softmaxes, which are equal but for rounding where negatives no longer count
        assert gradient[same_class].max() <= (1e-15 if call is LOSSES[2].call else 0)
        assert gradient[labels[:, None] != labels].min() >= 0
    repelled = (pair_gradients(SF.supcon, z, labels, temperature=temperature)[same_class] > 0).float().mean()
    if temperature < 1 and noise < 1:  # tight classes, well apart: every second pair, or more
        assert 0.3 < repelled < 0.7


def test_pair_gradients_are_the_papers():
    """Eq. 13 and Eq. 14, by the oracle's loops."""
    z, labels = torch.randn(10, 4, dtype=torch.float64), torch.arange(10) % 3
    rows, row_labels = flat(z, labels)
    truth = oracles.batch_from_labels(rows, row_labels, 0.2)
    for call, name in ((SF.sincere, "sincere"), (SF.supcon, "supcon_out"), (SF.set_nce, "set_nce")):
        expected = oracles.logit_gradient(truth, name, np.full(10, 0.1)) / 0.2
        np.testing.assert_allclose(pair_gradients(call, z, labels, temperature=0.2), expected, atol=1e-13)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_float32_is_as_close_to_the_truth_as_dense(case, backend):
    """No further from float64 than same-precision dense, plus a slack of 4 rounding errors of the largest logit."""
    rows, labels = torch.randn(300, 16), torch.arange(300) // 2 % 7
    z, labels, _ = rows_of(case, rows, labels)

    def gradient(z, backend):
        z = z.clone().requires_grad_()
        loss = case.call(z, labels, backend=backend)
        return loss.item(), torch.autograd.grad(loss, z)[0].double()

    true_value, truth = gradient(z.double(), "dense")
    value, candidate = gradient(z, backend)
    dense_value, dense = gradient(z, "dense")
    slack = 4 * torch.finfo(torch.float32).eps * 10
    assert abs(value - true_value) <= 2 * abs(dense_value - true_value) + slack * abs(true_value)
    assert (candidate - truth).norm() <= 2 * (dense - truth).norm() + slack * truth.norm()


@pytest.mark.parametrize("backend", BACKENDS)
def test_labels_and_pair_weights_are_constants(backend):
    """Or a teacher would be trained with few samples and not with many, where the backend is another."""
    z = torch.randn(6, 3, requires_grad=True)
    for targets, shape in (("classes", (6, 4)), ("pairs", (6, 6))):
        labels = torch.rand(*shape, requires_grad=True)
        loss = SF.soft_label(z, labels, targets=targets, backend=backend)
        of_rows, of_labels = torch.autograd.grad(loss, (z, labels), allow_unused=True)
        assert of_rows.any()
        assert of_labels is None
