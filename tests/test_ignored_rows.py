"""Rows that take no part: whatever they hold, they get a zero gradient and spoil nobody. And any number is a label."""

import pytest
import torch

import sincere.functional as SF
from loss_table import LOSSES
from sincere.losses.backends import fused, triton_fused

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LABELS = torch.tensor([0, 1, -1, 0, 1, 2, 2])
CONTRAST_LABELS = torch.tensor([0, 1, 2, -1, 0, 1])
BROKEN = [float("nan"), float("inf")]
KERNEL_WARNINGS = pytest.mark.filterwarnings("ignore:(invalid value|overflow) encountered:RuntimeWarning")  # numpy's
SOFT = torch.nn.functional.one_hot(LABELS.clamp(min=0), 3).double().masked_fill((LABELS < 0).unsqueeze(1), -1)


def results(call, z, *args, **options):
    """The losses of all anchors, their mean, and the gradients of embeddings and contrasts."""
    inputs = [tensor.clone().requires_grad_() for tensor in (z, *args[1:2])]
    given = (inputs[0], args[0], *inputs[1:], *args[2:])
    mean = call(*given, **options)
    losses = call(*given, reduction="none", **options)
    return losses.detach(), mean.detach(), torch.autograd.grad(mean + losses.sum(), inputs)


def assert_as_if_left_out(call, z, labels, contrasts=(), weights=None, **options):
    """The same without the unlabelled rows, and their gradients exactly 0."""
    exact = z.dtype == torch.float64
    tolerance = {"rtol": 1e-9, "atol": 1e-11} if exact else {"rtol": 1e-3, "atol": 1e-4}
    labelled = labels >= 0 if labels.ndim == 1 else (labels >= 0).all(dim=1)
    kept, usable = (), None
    if contrasts:
        usable = contrasts[1] >= 0
        kept = (contrasts[0][usable], contrasts[1][usable])
    weights_left = None if weights is None else weights[labelled]
    losses, mean, gradients = results(call, z, labels, *contrasts, weights=weights, **options)
    left = results(call, z[labelled], labels[labelled], *kept, weights=weights_left, **options)
    torch.testing.assert_close(mean, left[1], **tolerance)
    torch.testing.assert_close(losses[labelled], left[0], **tolerance)
    assert not losses[~labelled].any()
    for got, want, mask in zip(gradients, left[2], (labelled, usable), strict=False):
        torch.testing.assert_close(got[mask], want, **tolerance)
        assert (got[~mask] == 0).all()


@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("similarity", ["cosine", "dot", "euclidean"])
@pytest.mark.parametrize("backend", ["dense", "tiled"])
@pytest.mark.parametrize("case", LOSSES, ids=repr)
def test_unlabelled_rows_may_hold_anything(case, backend, similarity, broken):
    z, c = torch.randn(7, 2, 5, dtype=torch.float64), torch.randn(6, 5, dtype=torch.float64)
    z[2, 0, 1] = c[3, 2] = broken
    weights = torch.rand(7, dtype=torch.float64) + 0.1
    weights[2] = broken
    options = {"backend": backend, "similarity": similarity}
    assert_as_if_left_out(case.call, z, LABELS, **options)
    assert_as_if_left_out(case.call, z, LABELS, weights=weights, **options)
    assert_as_if_left_out(case.call, z, LABELS, (c, CONTRAST_LABELS), include_batch=True, **options)
    if not case.needs_views:
        assert_as_if_left_out(case.call, z, LABELS, (c, CONTRAST_LABELS), **options)
        # Unlabelled rows of the batch are nobody's negatives where the contrasts are others.
        assert_as_if_left_out(case.call, z, LABELS, (c[:3], CONTRAST_LABELS[:3]), ignored_as_negatives=True, **options)


@pytest.mark.parametrize("backend", ["dense", "tiled"])
def test_with_soft_and_multi_hot_labels(backend):
    z = torch.randn(7, 2, 5, dtype=torch.float64)
    z[2, 0, 1] = float("nan")
    assert_as_if_left_out(SF.soft_label, z, SOFT, backend=backend)
    assert_as_if_left_out(SF.spread, z, SOFT.long(), positives="jaccard", backend=backend)


@pytest.fixture(params=[(2048, 32768), (4, 32768), (4, 8)], ids=["counting", "chunks", "sorting"])
def way(request, monkeypatch):
    """Each of the ways in which kernels find the class order, whatever the size of the batch."""
    monkeypatch.setattr(triton_fused, "COUNTING", request.param[0])
    monkeypatch.setattr(triton_fused, "CHUNKS", request.param[1])
    fused._kept_plan.cache_clear()  # programs that are kept know their way
    yield request.param
    fused._kept_plan.cache_clear()


@KERNEL_WARNINGS
def test_with_kernels_in_any_order(way):
    z, labels = torch.randn(7, 3, device=DEVICE), LABELS.to(DEVICE)
    z[2, 1] = float("nan")
    z.requires_grad_()
    value = SF.sincere(z, labels, backend="triton")
    (gradient,) = torch.autograd.grad(value, z)
    rows = z.detach()[labels >= 0].double().requires_grad_()
    expected = SF.sincere(rows, labels[labels >= 0], backend="dense")
    torch.testing.assert_close(value.double(), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        gradient[labels >= 0].double(), torch.autograd.grad(expected, rows)[0], rtol=1e-3, atol=1e-4
    )
    assert not gradient[2].any()


@KERNEL_WARNINGS
@pytest.mark.parametrize("broken", BROKEN)
@pytest.mark.parametrize("loss", [SF.sincere, SF.supcon])
def test_with_kernels(loss, broken):
    z, labels = torch.randn(7, 5, device=DEVICE), LABELS.to(DEVICE)
    z[2, 1] = broken
    for options in ({"similarity": "dot"}, {"temperature": torch.tensor(0.1, device=DEVICE)}):
        assert_as_if_left_out(loss, z, labels, backend="triton", **options)


@KERNEL_WARNINGS
@pytest.mark.parametrize("backend", ["dense", "tiled", "triton"])
@pytest.mark.parametrize("loss", [SF.sincere, SF.supcon, SF.spread])
def test_unlabelled_rows_that_serve_as_negatives_show_what_they_hold(loss, backend):
    z = torch.randn(7, 2, 5, device=DEVICE)
    z[2, 0, 1] = float("nan")
    z.requires_grad_()
    value = loss(z, LABELS.to(DEVICE), ignored_as_negatives=True, backend=backend)
    assert value.isnan()
    assert torch.autograd.grad(value, z)[0].isnan().any()


def test_far_from_the_origin_euclidean_distances_keep_their_digits():
    """Rows that take no part do not move the centre by which the others are shifted."""
    rows, labels = torch.randn(12, 4, dtype=torch.float64), torch.arange(12) % 3
    far = torch.cat([rows + 1e4, torch.zeros(36, 4, dtype=torch.float64)]).float()
    partly = torch.cat([labels, torch.full((36,), -1)])
    near = (far[:12].double() - 1e4).float()  # what float32 kept of the rows
    found = SF.sincere(far, partly, similarity="euclidean")
    torch.testing.assert_close(found, SF.sincere(near, labels, similarity="euclidean"), rtol=1e-4, atol=1e-5)


NAMES = torch.tensor([2**63 - 1, 2**63 - 2, -1, 0, 5, -(2**63)])


@pytest.mark.parametrize("ignored", [-1, 2**63 - 1])
@pytest.mark.parametrize("as_negatives", [False, True])
def test_any_number_is_a_label_in_any_order(way, as_negatives, ignored):
    assert_any_number_is_a_label("triton", ignored, as_negatives, [(False, {})])


@pytest.mark.parametrize("ignored", [-1, 5, 2**63 - 1, -(2**63)])
@pytest.mark.parametrize("as_negatives", [False, True])
@pytest.mark.parametrize("backend", ["dense", "tiled", "triton"])
def test_any_number_is_a_label(backend, as_negatives, ignored):
    """Kernels sort rows that take no part behind the others by a key that is a label's number too."""
    calls = [(False, {"reduction": "class_mean"}), (True, {}), (True, {"include_batch": True})]
    assert_any_number_is_a_label(backend, ignored, as_negatives, calls)


def assert_any_number_is_a_label(backend, ignored, as_negatives, calls):
    generator = torch.Generator().manual_seed(1)
    places, contrast_places = (torch.randint(6, (size,), generator=generator) for size in (30, 20))
    z, c = torch.randn(30, 4), torch.randn(20, 4)
    plain_mark = NAMES.tolist().index(ignored)

    def found(names, mark, backend, dtype, contrasts, **options):
        rows = z.to(DEVICE, dtype).requires_grad_()
        given = (c.to(DEVICE, dtype), names[contrast_places].to(DEVICE)) if contrasts else ()
        options = {"reduction": "none", "ignore_label": mark, "ignored_as_negatives": as_negatives} | options
        losses = SF.supcon(rows, names[places].to(DEVICE), *given, backend=backend, **options)
        return losses.detach().double(), torch.autograd.grad(losses.sum(), rows)[0].double()

    for contrasts, options in calls:
        truth = found(torch.arange(6), plain_mark, "dense", torch.float64, contrasts, **options)
        candidate = found(NAMES, ignored, backend, torch.float32, contrasts, **options)
        for got, want in zip(candidate, truth, strict=True):
            torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-3)
